"""Endpoints of the Responses API."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.large import BodyRoute, made_of
from agentkit_runtime.api.openai.documented import FAILURES, answers
from agentkit_runtime.api.openai.encode import finish_reason
from agentkit_runtime.api.openai.fields import naming_tools
from agentkit_runtime.api.openai.responses.decode import Decoded, decode
from agentkit_runtime.api.openai.responses.echo import begun_response, input_documents
from agentkit_runtime.api.openai.responses.output import ResponseOutput
from agentkit_runtime.api.openai.responses.request import ResponseBody
from agentkit_runtime.api.openai.responses.store import Conversation, ResponseStore, StoredResponse
from agentkit_runtime.api.openai.responses.wire import (
    Deleted,
    ItemDocument,
    ItemList,
    ResponseDocument,
    StreamEvent,
)
from agentkit_runtime.api.openai.unserved import unserved_header
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import EventStream, answered, event
from agentkit_runtime.chat import ChatEvent, ChatFinished

PageSize = Annotated[int, Query(ge=1, le=100)]


class ResponseRoutes:
    """The routes, bound to one server and its stored responses."""

    def __init__(self, site: Site, store: ResponseStore | None = None) -> None:
        self._site = site
        self.store = ResponseStore() if store is None else store
        self.router = APIRouter(prefix="/v1/responses", route_class=BodyRoute)
        one = "/{response_id}"
        for path, method, endpoint, documented in (
            ("", "POST", self.create_response, answers(streamed=True)),
            ("/render", "POST", self.render_response, FAILURES),
            (one, "GET", self.get_response, FAILURES),
            (one, "DELETE", self.delete_response, FAILURES),
            (f"{one}/input_items", "GET", self.list_input_items, FAILURES),
            (f"{one}/cancel", "POST", self.cancel_response, FAILURES),
        ):
            self.router.add_api_route(
                path, endpoint, methods=[method], response_model=None, responses=documented
            )

    async def create_response(self, body: ResponseBody, request: Request) -> Response:
        """Answer, streamed or whole. Ends at once when the client disconnects."""
        site, tenant = self._site, require_user(request).tenant
        site.check_model(body.model)
        previous = None
        if body.previous_response_id is not None:
            previous = self.store.get(
                tenant, body.previous_response_id, param="previous_response_id"
            )
        running = await made_of(request, lambda: self._begun(body, tenant, previous))
        if body.stream:
            # Opened here and not in the stream: a refused request gets its status, not a 200.
            answer = await self._open(request, running)
            return EventStream(
                self._events(answer, running), on_close=answer.close, headers=running.headers
            )
        return await answered(request.receive, self._whole(request, running))

    def _begun(self, body: ResponseBody, tenant: str, previous: StoredResponse | None) -> _Running:
        site = self._site
        begun = begun_response(
            body, response_id=new_id("resp_"), created_s=int(site.clock()), model=site.model
        )
        decoded = decode(
            body,
            None if previous is None else previous.conversation,
            request_id=begun["id"],
            service=site.service,
        )
        earlier = () if previous is None else _all_items(previous)
        return _Running(
            tenant=tenant,
            decoded=decoded,
            output=ResponseOutput(
                begun,
                decoded.box.callables,
                carries_thinking="reasoning.encrypted_content" in (body.include or ()),
            ),
            input_items=(*earlier, *input_documents(body.input, earlier)),
            is_kept=body.store is not False,
        )

    async def render_response(self, body: ResponseBody, request: Request) -> dict[str, list[int]]:
        """The ids of the prompt that the request with this body would have."""
        tenant = require_user(request).tenant
        self._site.check_model(body.model)
        earlier = self._continued(tenant, body.previous_response_id)
        decoded = await made_of(
            request,
            lambda: decode(body, earlier, request_id="render", service=self._site.service),
        )
        chat = dataclasses.replace(decoded.chat, tenant=tenant)
        async with self._site.looking(request):
            return {"token_ids": list(await self._site.service.marks.prompt_ids(chat))}

    def _continued(self, tenant: str, response_id: str | None) -> Conversation | None:
        if response_id is None:
            return None
        return self.store.get(tenant, response_id, param="previous_response_id").conversation

    async def get_response(
        self, response_id: str, request: Request, stream: bool = False
    ) -> ResponseDocument:
        """A stored response."""
        if stream:
            raise ApiError(
                "a stored response is not streamed again; leave stream out", param="stream"
            )
        return self._stored(request, response_id).document

    async def delete_response(self, response_id: str, request: Request) -> Deleted:
        """Forget a stored response."""
        self.store.delete(require_user(request).tenant, response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    async def cancel_response(self, response_id: str, request: Request) -> Response:
        """Refused: nothing runs in the background here."""
        self._stored(request, response_id)
        raise ApiError(
            "only responses that run in the background can be cancelled, and none does here; "
            "close the connection to stop one that is being generated",
            code="not_cancellable",
        )

    async def list_input_items(
        self,
        response_id: str,
        request: Request,
        after: str | None = None,
        limit: PageSize = 20,
        order: Literal["asc", "desc"] = "desc",
    ) -> ItemList:
        """What went into a stored response, page by page."""
        items = list(self._stored(request, response_id).input_items)
        if order == "desc":
            items.reverse()
        ids = [str(item["id"]) for item in items]
        if after is not None:
            if after not in ids:
                raise ApiError("after names no item of this response", param="after")
            items = items[ids.index(after) + 1 :]
        page = items[:limit]
        return {
            "object": "list",
            "data": page,
            "first_id": str(page[0]["id"]) if page else "",
            "last_id": str(page[-1]["id"]) if page else "",
            "has_more": len(page) < len(items),
        }

    def _stored(self, request: Request, response_id: str) -> StoredResponse:
        return self.store.get(require_user(request).tenant, response_id)

    async def _open(self, request: Request, running: _Running) -> Answer:
        with naming_tools(running.decoded.box.fields):
            return await self._site.open(request, running.decoded.chat, id=running.id)

    async def _whole(self, request: Request, running: _Running) -> Response:
        answer = await self._open(request, running)
        (events,) = await answer.collect()
        for found in events:
            self._add(answer, running, found)
        if running.output.response["status"] == "failed":
            assert isinstance(events[-1], ChatFinished), "the last event says how it ended"
            finish_reason(events[-1])  # raises: nothing was sent, so the status can tell it
        return JSONResponse(running.output.response, headers=running.headers)

    async def _events(self, answer: Answer, running: _Running) -> AsyncIterator[bytes]:
        for document in running.output.begin():
            yield _sse(document)
        async with aclosing(answer.events()) as events:
            async for _, found in events:
                for document in self._add(answer, running, found):
                    yield _sse(document)

    def _add(self, answer: Answer, running: _Running, found: ChatEvent) -> list[StreamEvent]:
        """What an event adds. A finished response is stored before anybody hears of its end."""
        documents = running.output.add(found, int(self._site.clock()))
        response = running.output.response
        if running.is_kept and response["status"] in ("completed", "incomplete"):
            conversation = running.decoded.conversation.answered(
                running.output.reply, answer.streams[0].ids
            )
            self.store.put(
                running.tenant,
                StoredResponse(
                    document=response, input_items=running.input_items, conversation=conversation
                ),
            )
        return documents


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A response that is being generated."""

    tenant: str
    decoded: Decoded
    output: ResponseOutput
    input_items: tuple[ItemDocument, ...]
    is_kept: bool

    @property
    def id(self) -> str:
        return self.output.response["id"]

    @property
    def headers(self) -> dict[str, str]:
        return unserved_header(self.decoded.unserved)


def _all_items(response: StoredResponse) -> tuple[ItemDocument, ...]:
    said = ({"status": "completed", **item} for item in response.document["output"])
    return (*response.input_items, *said)


def _sse(document: StreamEvent) -> bytes:
    return event(document, document["type"])
