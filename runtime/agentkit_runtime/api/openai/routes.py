"""Endpoints of the OpenAI dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.large import BodyRoute, made_of
from agentkit_runtime.api.openai.completions.routes import CompletionRoutes
from agentkit_runtime.api.openai.decode import decode
from agentkit_runtime.api.openai.documented import FAILURES, answers
from agentkit_runtime.api.openai.encode import Heading, ManyChunks, encode_completions
from agentkit_runtime.api.openai.fields import naming_tools
from agentkit_runtime.api.openai.options import served_tier
from agentkit_runtime.api.openai.request import ChatCompletionBody
from agentkit_runtime.api.openai.responses.routes import ResponseRoutes
from agentkit_runtime.api.openai.tools import fields_of, kinds_of
from agentkit_runtime.api.openai.unserved import unserved_header, unserved_of_chat
from agentkit_runtime.api.openai.wire import ModelList, ModelObject
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import DONE, EventStream, answered, event


class OpenAiRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        # Each route has its whole path: those behind a prefix of an outer router would tell
        # metrics and logs only what follows it.
        self.router = APIRouter(route_class=BodyRoute)
        self.router.add_api_route(
            "/v1/chat/completions",
            self.create_chat_completion,
            methods=["POST"],
            response_model=None,
            responses=answers(streamed=True),
        )
        self.responses = ResponseRoutes(site)
        self.router.include_router(self.responses.router)
        self.router.include_router(self.responses.kept.router)
        self.router.include_router(CompletionRoutes(site).router)
        self._add_get("/v1/models", self.list_models)
        self._add_get("/v1/models/{model_id:path}", self.get_model)

    def _add_get(self, path: str, endpoint: Callable[..., object]) -> None:
        # No response model: what is returned has its final shape already.
        self.router.add_api_route(
            path, endpoint, methods=["GET"], response_model=None, responses=FAILURES
        )

    async def create_chat_completion(self, body: ChatCompletionBody, request: Request) -> Response:
        """Answer a chat, streamed or whole. Ends at once when the client disconnects."""
        site = self._site
        site.check_model(body.model)
        heading = Heading(
            id=new_id("chatcmpl-"),
            created_s=int(site.clock()),
            model=site.model,
            fingerprint=site.service.fingerprint,
            service_tier=served_tier(body.service_tier),
        )
        n, tools = body.n or 1, body.tools or ()
        kinds, fields = kinds_of(tools), fields_of(tools)
        headers = unserved_header(unserved_of_chat(body, site.service))
        chat = await made_of(
            request, lambda: decode(body, request_id=heading.id, service=site.service)
        )
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            # Opened here and not in the stream: a refused request gets its status, not a 200.
            with naming_tools(fields):
                answer = await site.open(request, chat, id=heading.id, n=n)
            encoder = ManyChunks(heading, n, include_usage=usage, kinds=kinds)
            return EventStream(_events(answer, encoder), on_close=answer.close, headers=headers)

        async def work() -> Response:
            with naming_tools(fields):
                answer = await site.open(request, chat, id=heading.id, n=n)
            completion = encode_completions(heading, await answer.collect(), kinds)
            return JSONResponse(completion, headers=headers)

        return await answered(request.receive, work())

    async def list_models(self) -> ModelList:
        """The names that requests may use."""
        return {"object": "list", "data": [self._model(name) for name in self._site.model_ids]}

    async def get_model(self, model_id: str) -> ModelObject:
        """One of them."""
        self._site.check_model(model_id)
        return self._model(model_id)

    def _model(self, name: str) -> ModelObject:
        return {
            "id": name,
            "object": "model",
            "created": int(self._site.started_s),
            "owned_by": "agentkit-radix",
        }


async def _events(answer: Answer, encoder: ManyChunks) -> AsyncIterator[bytes]:
    async with aclosing(answer.events()) as events:
        async for index, found in events:
            for document in encoder.encode(index, found):
                yield event(document)
    yield DONE
