"""Endpoints of the Responses API."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.large import BodyRoute, made_of
from agentkit_runtime.api.openai.documented import FAILURES, answers
from agentkit_runtime.api.openai.encode import finish_reason
from agentkit_runtime.api.openai.fields import naming_tools
from agentkit_runtime.api.openai.responses.background import Background
from agentkit_runtime.api.openai.responses.decode import decode
from agentkit_runtime.api.openai.responses.echo import begun_response, input_documents
from agentkit_runtime.api.openai.responses.kept import KeptRoutes, continued, followed
from agentkit_runtime.api.openai.responses.output import ResponseOutput
from agentkit_runtime.api.openai.responses.request import ResponseBody
from agentkit_runtime.api.openai.responses.running import Running
from agentkit_runtime.api.openai.responses.store import ResponseStore, StoredResponse
from agentkit_runtime.api.openai.responses.wire import (
    ItemDocument,
    StreamEvent,
)
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import EventStream, answered, event
from agentkit_runtime.chat import ChatEvent, ChatFinished


class ResponseRoutes:
    """The routes, bound to one server and its stored responses."""

    def __init__(self, site: Site, store: ResponseStore | None = None) -> None:
        self._site = site
        self.store = ResponseStore() if store is None else store
        self.router = APIRouter(prefix="/v1/responses", route_class=BodyRoute)
        for path, method, endpoint, documented in (
            ("", "POST", self.create_response, answers(streamed=True)),
            ("/render", "POST", self.render_response, FAILURES),
        ):
            self.router.add_api_route(
                path, endpoint, methods=[method], response_model=None, responses=documented
            )
        self.kept = KeptRoutes(self.store)

    async def create_response(self, body: ResponseBody, request: Request) -> Response:
        """Answer, streamed or whole. Ends at once when the client disconnects, unless it is to go
        on in the background: then a whole answer is told as queued."""
        site, tenant = self._site, require_user(request).tenant
        site.check_model(body.model)
        previous = continued(self.store, tenant, body.previous_response_id)
        running = await made_of(request, lambda: self._begun(body, tenant, previous))
        if body.background:
            return await self._in_background(request, running, is_streamed=body.stream is True)
        if body.stream:
            # Opened here and not in the stream: a refused request gets its status, not a 200.
            answer = await self._open(request, running)
            events = self._events(answer, running, is_kept=body.store is not False)
            return EventStream(events, on_close=answer.close, headers=running.headers)
        whole = self._whole(request, running, is_kept=body.store is not False)
        return await answered(request.receive, whole)

    async def _in_background(
        self, request: Request, running: Running, *, is_streamed: bool
    ) -> Response:
        answer = await self._open(request, running)
        begun = Background(
            running, answer, self.store, clock=self._site.clock, keeps_events=is_streamed
        )
        if is_streamed:
            return followed(begun.follow(-1), running.headers)
        return JSONResponse(running.document, headers=running.headers)

    def _begun(self, body: ResponseBody, tenant: str, previous: StoredResponse | None) -> Running:
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
        return Running(
            tenant=tenant,
            decoded=decoded,
            output=ResponseOutput(
                begun,
                decoded.box.callables,
                carries_thinking="reasoning.encrypted_content" in (body.include or ()),
            ),
            input_items=(*earlier, *input_documents(body.input, earlier)),
        )

    async def render_response(self, body: ResponseBody, request: Request) -> dict[str, list[int]]:
        """The ids of the prompt that the request with this body would have."""
        tenant = require_user(request).tenant
        self._site.check_model(body.model)
        previous = continued(self.store, tenant, body.previous_response_id)
        earlier = None if previous is None else previous.conversation
        decoded = await made_of(
            request,
            lambda: decode(body, earlier, request_id="render", service=self._site.service),
        )
        chat = dataclasses.replace(decoded.chat, tenant=tenant)
        async with self._site.looking(request):
            return {"token_ids": list(await self._site.service.marks.prompt_ids(chat))}

    async def _open(self, request: Request, running: Running) -> Answer:
        with naming_tools(running.decoded.box.fields):
            return await self._site.open(request, running.decoded.chat, id=running.id)

    async def _whole(self, request: Request, running: Running, *, is_kept: bool) -> Response:
        answer = await self._open(request, running)
        (events,) = await answer.collect()
        for found in events:
            self._add(answer, running, found, is_kept)
        if running.document["status"] == "failed":
            assert isinstance(events[-1], ChatFinished), "the last event says how it ended"
            finish_reason(events[-1])  # raises: nothing was sent, so the status can tell it
        return JSONResponse(running.document, headers=running.headers)

    async def _events(
        self, answer: Answer, running: Running, *, is_kept: bool
    ) -> AsyncIterator[bytes]:
        for document in running.output.begin():
            yield _sse(document)
        async with aclosing(answer.events()) as events:
            async for _, found in events:
                for document in self._add(answer, running, found, is_kept):
                    yield _sse(document)

    def _add(
        self, answer: Answer, running: Running, found: ChatEvent, is_kept: bool
    ) -> list[StreamEvent]:
        """What an event adds. A finished response is stored before anybody hears of its end."""
        documents = running.output.add(found, int(self._site.clock()))
        if is_kept and running.is_finished:
            self.store.put(running.tenant, running.stored(answer))
        return documents


def _all_items(response: StoredResponse) -> tuple[ItemDocument, ...]:
    said = ({"status": "completed", **item} for item in response.document["output"])
    return (*response.input_items, *said)


def _sse(document: StreamEvent) -> bytes:
    return event(document, document["type"])
