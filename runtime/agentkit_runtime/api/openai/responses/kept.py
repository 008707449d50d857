"""Endpoints of responses that are there already: stored ones, and those that go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.large import BodyRoute
from agentkit_runtime.api.openai.documented import FAILURES, answers
from agentkit_runtime.api.openai.responses.background import Background
from agentkit_runtime.api.openai.responses.running import FINISHED
from agentkit_runtime.api.openai.responses.store import ResponseStore, StoredResponse
from agentkit_runtime.api.openai.responses.wire import Deleted, ItemList
from agentkit_runtime.api.sse import EventStream
from agentkit_runtime.api.standing import Standings

PageSize = Annotated[int, Query(ge=1, le=100)]
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class KeptRoutes:
    """The routes, over the responses of one server."""

    def __init__(self, store: ResponseStore) -> None:
        self.store = store
        self.router = APIRouter(prefix="/v1/responses", route_class=BodyRoute)
        one = "/{response_id}"
        for path, method, endpoint, documented in (
            (one, "GET", self.get_response, answers(streamed=True)),
            (one, "DELETE", self.delete_response, FAILURES),
            (f"{one}/input_items", "GET", self.list_input_items, FAILURES),
            (f"{one}/cancel", "POST", self.cancel_response, FAILURES),
        ):
            self.router.add_api_route(
                path, endpoint, methods=[method], response_model=None, responses=documented
            )

    async def get_response(
        self,
        response_id: str,
        request: Request,
        stream: bool = False,
        starting_after: Annotated[int | None, Query(ge=0)] = None,
    ) -> Response:
        """A response that is stored or goes on, or its events behind number `starting_after`."""
        tenant = require_user(request).tenant
        unfinished = self.store.unfinished(tenant, response_id, Background)
        if not stream:
            document = (
                self.store.get(tenant, response_id).document
                if unfinished is None
                else unfinished.running.document
            )
            return JSONResponse(document)
        after = -1 if starting_after is None else starting_after
        if unfinished is not None and unfinished.keeps_events:
            return _following(unfinished, after, request)
        events = () if unfinished is not None else self.store.get(tenant, response_id).events
        if not events:
            raise ApiError(
                "only what was begun with background and stream is streamed again; leave "
                "stream out",
                param="stream",
            )
        return followed(_replayed(events[after + 1 :]))

    async def delete_response(self, response_id: str, request: Request) -> Deleted:
        """Forget a response; one that goes on is ended."""
        tenant = require_user(request).tenant
        unfinished = self.store.unfinished(tenant, response_id, Background)
        if unfinished is None:
            self.store.delete(tenant, response_id)
        else:
            unfinished.forget()
            await unfinished.cancel()
        return {"id": response_id, "object": "response", "deleted": True}

    async def cancel_response(self, response_id: str, request: Request) -> Response:
        """End a response that goes on in the background; one that is over stays as it is."""
        tenant = require_user(request).tenant
        unfinished = self.store.unfinished(tenant, response_id, Background)
        if unfinished is not None:
            await unfinished.cancel()
            return JSONResponse(unfinished.running.document)
        document = self.store.get(tenant, response_id).document
        if not document["background"]:
            raise ApiError(
                "only responses that run in the background can be cancelled, and this one did not; "
                "close the connection to stop one that is being generated",
                code="not_cancellable",
            )
        return JSONResponse(document)

    async def list_input_items(
        self,
        response_id: str,
        request: Request,
        after: str | None = None,
        limit: PageSize = 20,
        order: Literal["asc", "desc"] = "desc",
    ) -> ItemList:
        """What went into a stored response, page by page."""
        tenant = require_user(request).tenant
        unfinished = self.store.unfinished(tenant, response_id, Background)
        found = self.store.get(tenant, response_id) if unfinished is None else unfinished.running
        items = list(found.input_items)
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


def continued(store: ResponseStore, tenant: str, response_id: str | None) -> StoredResponse | None:
    """What is gone on from. Raises `ApiError` for what never was, or has no end of its own."""
    if response_id is None:
        return None
    unfinished = store.unfinished(tenant, response_id, Background)
    if unfinished is None:
        found = store.get(tenant, response_id, param="previous_response_id")
        status = found.document["status"]
    else:
        found, status = None, unfinished.running.document["status"]
    if found is None or status not in FINISHED:
        raise ApiError(
            f"previous_response_id names a response that is {status}; only one that is "
            f"{' or '.join(FINISHED)} can be continued",
            param="previous_response_id",
        )
    return found


def _following(response: Background, after: int, request: Request) -> Response:
    """Its stream, for as long as the key that asks is let in: the response has one of its own."""
    standings: Standings = request.app.state.site.answering.standings
    seat = standings.join(require_user(request), request.state.caller_now, response.wake)
    return EventStream(response.follow(after, seat.refusal), on_close=seat.leave)


def followed(events: AsyncIterator[bytes], headers: Mapping[str, str] = _NO_HEADERS) -> Response:
    """A stream whose client may go: nothing of it ends what is told."""
    return EventStream(events, on_close=lambda: None, headers=headers)


async def _replayed(events: Sequence[bytes]) -> AsyncIterator[bytes]:
    for told in events:
        yield told
