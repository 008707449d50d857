"""Endpoints of the OpenAI dialect."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.openai.decode import decode
from agentkit_runtime.api.openai.encode import Heading, ManyChunks, encode_completions
from agentkit_runtime.api.openai.errors import ApiError
from agentkit_runtime.api.openai.request import ChatCompletionBody
from agentkit_runtime.api.openai.wire import ModelList, ModelObject
from agentkit_runtime.api.sse import DONE, ClientGone, EventStream, event, while_connected
from agentkit_runtime.chat import ChatEvent, ChatRequest
from agentkit_runtime.reply import ChatStream, abort_all, merged

if TYPE_CHECKING:
    from agentkit_runtime.service import ChatService

_TENANT = "default"
"""Every caller is the same tenant until the server knows credentials."""

_CLIENT_GONE_STATUS = 499
"""Nobody reads it; access logs do (the number is nginx's)."""


class OpenAiRoutes:
    """The routes, bound to one service. `model_ids` are the names requests may use."""

    def __init__(
        self, service: ChatService, model_ids: Sequence[str], clock: Callable[[], float]
    ) -> None:
        self._service = service
        self._model_ids = tuple(model_ids)
        self._clock = clock
        self._started_s = int(clock())
        self.router = APIRouter(prefix="/v1")
        self.router.add_api_route(
            "/chat/completions",
            self.create_chat_completion,
            methods=["POST"],
            response_model=None,
            responses=_CHAT_RESPONSES,
        )
        self._add_get("/models", self.list_models)
        self._add_get("/models/{model_id:path}", self.get_model)

    def _add_get(self, path: str, endpoint: Callable[..., object]) -> None:
        # No response model: what is returned has its final shape already.
        self.router.add_api_route(path, endpoint, methods=["GET"], response_model=None)

    async def create_chat_completion(self, body: ChatCompletionBody, request: Request) -> Response:
        """Answer a chat, streamed or whole. Ends at once when the client disconnects."""
        self._check_model(body.model)
        heading = Heading(
            id=f"chatcmpl-{uuid.uuid4().hex}",
            created_s=int(self._clock()),
            model=self._model_ids[0],
            fingerprint=self._service.fingerprint,
        )
        chat, n = decode(body, request_id=heading.id, tenant=_TENANT), body.n or 1
        try:
            if body.stream:
                usage = body.stream_options is not None and body.stream_options.include_usage
                return await self._stream(chat, ManyChunks(heading, n, include_usage=usage), n)
            answers = await while_connected(request.receive, self._collect(chat, n))
        except ClientGone:
            return Response(status_code=_CLIENT_GONE_STATUS)
        return JSONResponse(encode_completions(heading, answers))

    async def list_models(self) -> ModelList:
        """The names that requests may use."""
        return {"object": "list", "data": [self._model(name) for name in self._model_ids]}

    async def get_model(self, model_id: str) -> ModelObject:
        """One of them."""
        self._check_model(model_id)
        return self._model(model_id)

    async def _collect(self, chat: ChatRequest, n: int) -> list[list[ChatEvent]]:
        answers: list[list[ChatEvent]] = [[] for _ in range(n)]
        streams = await self._service.open_many(chat, n)
        try:
            async with aclosing(merged(streams)) as events:
                async for index, found in events:
                    answers[index].append(found)
        finally:
            abort_all(streams)
        return answers

    async def _stream(self, chat: ChatRequest, encoder: ManyChunks, n: int) -> Response:
        # Opened here and not in the body: a refused request must get its status, not a 200.
        streams = await self._service.open_many(chat, n)
        return EventStream(_events(streams, encoder), on_close=lambda: abort_all(streams))

    def _check_model(self, name: str) -> None:
        if name not in self._model_ids:
            raise ApiError(
                f"the model {name!r} is not served here; known: {', '.join(self._model_ids)}",
                status=404,
                param="model",
                code="model_not_found",
            )

    def _model(self, name: str) -> ModelObject:
        return {
            "id": name,
            "object": "model",
            "created": self._started_s,
            "owned_by": "agentkit-radix",
        }


async def _events(streams: Sequence[ChatStream], encoder: ManyChunks) -> AsyncIterator[bytes]:
    async with aclosing(merged(streams)) as events:
        async for index, found in events:
            for document in encoder.encode(index, found):
                yield event(document)
    yield DONE


_CHAT_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The completion, or with `stream: true` its chunks as server-sent events.",
        "content": {"application/json": {}, "text/event-stream": {}},
    },
    400: {"description": "The request cannot be served; `error.param` names the field."},
    404: {"description": "The model is not served here."},
    413: {"description": "The body is too large."},
    503: {"description": "The engine is stopping."},
}
