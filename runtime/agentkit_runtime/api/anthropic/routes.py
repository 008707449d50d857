"""Endpoints of the Anthropic dialect."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from agentkit_runtime.api.anthropic.decode import Decoded, decode, decode_conversation
from agentkit_runtime.api.anthropic.encode import MessageEncoder, folded
from agentkit_runtime.api.anthropic.errors import REQUEST_ID_HEADER, error_body, new_request_id
from agentkit_runtime.api.anthropic.request import ConversationBody, MessagesBody
from agentkit_runtime.api.anthropic.telling import Telling
from agentkit_runtime.api.anthropic.wire import ModelInfo, ModelPage, StreamEvent, TokenCount
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.dialect import ANTHROPIC
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.large import BodyRoute, made_of
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import EventStream, answered, event
from agentkit_runtime.marks import Mark

VERSION_HEADER = b"anthropic-version"
"""Every client of this API sends it; that tells its `GET /v1/models` from OpenAI's."""

_TTL_S = {"5m": 300.0, "1h": 3600.0}


class AnthropicRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.router = APIRouter(prefix="/v1", route_class=BodyRoute)
        for path, endpoint in (
            ("/messages", self.create_message),
            ("/messages/count_tokens", self.count_tokens),
        ):
            self.router.add_api_route(
                path, endpoint, methods=["POST"], response_model=None, responses=_RESPONSES
            )
        models = APIRouter(prefix="/v1", route_class=_VersionedRoute)
        self._add_get(models, "/models", self.list_models)
        self._add_get(models, "/models/{model_id:path}", self.get_model)
        self.router.routes.extend(models.routes)

    def _add_get(self, router: APIRouter, path: str, endpoint: Callable[..., object]) -> None:
        # Not in the description of the API, which can tell of one shape a path.
        router.add_api_route(
            path, endpoint, methods=["GET"], response_model=None, include_in_schema=False
        )

    async def create_message(self, body: MessagesBody, request: Request) -> Response:
        """Answer a conversation, streamed or whole. Ends at once when the client disconnects."""
        self._site.check_model(body.model)
        message_id, request_id = new_id("msg_"), new_request_id()
        decoded = await made_of(
            request, lambda: decode(body, self._site.service, request_id=message_id)
        )
        headers = {REQUEST_ID_HEADER: request_id}
        if body.stream:
            # Opened here and not in the stream: a refused request gets its status, not a 200.
            telling = await self._open(body, decoded, request, message_id)
            stream = EventStream(_sent(telling, request_id), on_close=telling.answer.close)
            stream.headers.update(headers)
            return stream

        async def work() -> Response:
            telling = await self._open(body, decoded, request, message_id)
            try:
                async with aclosing(telling.events()) as events:
                    told = [told async for told in events]
            finally:
                telling.answer.close()
            assert telling.usage is not None, "an answer that ended has a usage"
            return JSONResponse(folded(told, telling.usage), headers=headers)

        return await answered(request.receive, work())

    async def count_tokens(self, body: ConversationBody, request: Request) -> Response:
        """How many tokens a prompt would have. Nothing is computed or kept."""
        self._site.check_model(body.model)
        decoded = await made_of(request, lambda: decode_conversation(body, self._site.service))
        chat = dataclasses.replace(decoded.chat, tenant=require_user(request).tenant)
        async with self._site.looking(request):
            ids = await self._site.service.marks.prompt_ids(chat)
        count: TokenCount = {"input_tokens": len(ids)}
        return JSONResponse(count, headers={REQUEST_ID_HEADER: new_request_id()})

    async def list_models(self, request: Request) -> ModelPage:
        """The names that requests may use."""
        require_user(request)
        ids = self._site.model_ids
        return {
            "data": [self._model(name) for name in ids],
            "has_more": False,
            "first_id": ids[0],
            "last_id": ids[-1],
        }

    async def get_model(self, model_id: str, request: Request) -> Response:
        """One of them."""
        require_user(request)
        try:
            self._site.check_model(model_id)
        except ApiError as error:
            return ANTHROPIC.response(error)
        return JSONResponse(self._model(model_id))

    async def _open(
        self, body: MessagesBody, decoded: Decoded, request: Request, message_id: str
    ) -> Telling:
        site = self._site
        marks = [Mark(front.conversation, _TTL_S[front.ttl]) for front in decoded.fronts]
        answer = await site.open(request, decoded.chat, id=message_id)
        thinking = body.thinking
        return Telling(
            answer=answer,
            encoder=MessageEncoder(
                id=message_id,
                model=site.model,
                context_tokens=site.service.context_tokens,
                shows_thinking=thinking is None or thinking.display != "omitted",
            ),
            fronts=decoded.fronts,
            keep=lambda ids: site.service.marks.keep(answer.chat, ids, marks),
        )

    def _model(self, name: str) -> ModelInfo:
        began = datetime.datetime.fromtimestamp(int(self._site.started_s), datetime.UTC)
        n_context = self._site.service.context_tokens
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": began.isoformat().replace("+00:00", "Z"),
            "lifecycle": "active",
            "max_input_tokens": n_context,
            "max_tokens": n_context,
        }


async def _sent(telling: Telling, request_id: str) -> AsyncIterator[bytes]:
    try:
        async with aclosing(telling.events()) as events:
            async for told in events:
                yield _named(told)
    except ApiError as failure:
        yield _named(error_body(failure, request_id))


def _named(told: StreamEvent) -> bytes:
    return event(told, told["type"])


class _VersionedRoute(APIRoute):
    """A route that only clients of the Anthropic API find."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match without the header that says so."""
        if all(name != VERSION_HEADER for name, _ in scope.get("headers", ())):
            return Match.NONE, {}
        return super().matches(scope)


_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The answer, or with `stream: true` its events as server-sent events.",
        "content": {"application/json": {}, "text/event-stream": {}},
    },
    400: {"description": "The request cannot be served; `error.message` names the field."},
    404: {"description": "The model is not served here."},
    413: {"description": "The body is too large."},
    503: {"description": "The engine is stopping."},
}
