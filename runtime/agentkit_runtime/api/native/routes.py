"""`/v1/agentkit`: chat, warm-up and what the server is. The tenant is the key's, always."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.failure import from_validation
from agentkit_runtime.api.large import made_of
from agentkit_runtime.api.native.schema import body_schema
from agentkit_runtime.api.openai.documented import FAILURES
from agentkit_runtime.api.readable import require_readable
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import EventStream, answered, event, told
from agentkit_runtime.chat import ChatFinished
from agentkit_runtime.wire_chat import (
    CHAT_PATH,
    INFO_PATH,
    VERSION,
    WARM_PATH,
    ChatBody,
    InfoDocument,
    WarmBody,
    WarmedDocument,
    event_document,
)

B = TypeVar("B", bound=ChatBody)


class NativeRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.router = APIRouter(tags=["agentkit"], responses=_RESPONSES)
        self._post(CHAT_PATH, self.chat, ChatBody)
        self._post(WARM_PATH, self.warm, WarmBody)
        self.router.add_api_route(INFO_PATH, self.info, methods=["GET"], response_model=None)

    def _post(self, path: str, endpoint: Callable[..., object], body: type[ChatBody]) -> None:
        # The bodies are read as JSON by their own models: FastAPI would read them as Python values,
        # where a list is no tuple and no set.
        self.router.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            response_model=None,
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": body_schema(body)}},
                }
            },
        )

    async def chat(self, request: Request) -> Response:
        """Answer a chat as events. Ends at once when the client disconnects."""
        asked = await self._asked(request, ChatBody)
        # Opened here and not in the stream: a refused request gets its status, not a 200.
        answer = await self._site.open(request, asked.request, id=str(asked.request.request_id))
        return EventStream(_events(answer), on_close=answer.close)

    async def warm(self, request: Request) -> Response:
        """Compute what requests will share; no answer. Let in and counted like any request, and
        ended at once when the client disconnects."""
        asked = await self._asked(request, WarmBody)

        return await answered(request.receive, told(self._warmed(request, asked)))

    async def _warmed(self, request: Request, asked: WarmBody) -> WarmedDocument:
        front = dataclasses.replace(asked.request, tenant=require_user(request).tenant)
        sampling = dataclasses.replace(front.sampling, max_tokens=0)
        fill = dataclasses.replace(front, sampling=sampling)
        answer = await self._site.open(request, fill, id=str(fill.request_id))
        (events,) = await answer.collect()
        done = await self._site.service.prefixes.prewarm(
            front, pin=asked.pin, ttl_s=asked.ttl_s, name=asked.name
        )
        finished = events[-1]
        assert isinstance(finished, ChatFinished), "the last event of an answer"
        cached = min(done.tokens, finished.stats.cached_tokens)
        return {"tokens": done.tokens, "cached_tokens": cached}

    async def info(self, request: Request) -> InfoDocument:
        """What this server is."""
        require_user(request)
        return {
            "version": VERSION,
            "release": _release(),
            "model": self._site.model,
            "models": list(self._site.model_ids),
            "context_tokens": self._site.service.context_tokens,
        }

    async def _asked(self, request: Request, kind: type[B]) -> B:
        """The body, with an id that is ours: clients' own are not written into logs."""
        require_user(request)
        raw = await request.body()
        body = await made_of(request, lambda: _body(kind, raw))
        if body.model:
            self._site.check_model(body.model)
        return body


def _body(kind: type[B], raw: bytes) -> B:
    """The body, with an id that is ours. Raises `ApiError` for one that cannot be read."""
    try:
        body = kind.model_validate_json(raw)
    except ValidationError as error:
        raise from_validation([dict(found) for found in error.errors()]) from error
    chat = body.request
    require_readable(chat.response_schema, "request.response_schema")
    for rank, tool in enumerate(chat.tools):
        require_readable(tool.parameters, f"request.tools[{rank}].parameters")
    named = dataclasses.replace(chat, request_id=new_id("agentkit-"))
    return body.model_copy(update={"request": named})


async def _events(answer: Answer) -> AsyncIterator[bytes]:
    async with aclosing(answer.events()) as events:
        async for _, found in events:
            yield event(event_document(found))


def _release() -> str:
    try:
        return version("agentkit-radix")
    except PackageNotFoundError:
        return "unknown"


_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The answer; a chat's as events.",
        "content": {"application/json": {}, "text/event-stream": {}},
    },
    **FAILURES,
    409: {"description": "It cannot be done now: too much would be pinned."},
}
