"""Tokens of texts and of requests: what routers and clients of vLLM ask for.

`/tokenize` and `/detokenize` are vLLM's. The `render` endpoints answer the ids that the request
with the same body would have, without running it: routers find cached prefixes by them. All count
among their tenant's requests a minute, as they take threads that answers are prepared in.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, TypedDict

from fastapi import APIRouter, Request
from pydantic import Field, model_validator

from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.large import BodyRoute, made_of
from agentkit_runtime.api.openai.completions.prompts import decode as decode_prompts
from agentkit_runtime.api.openai.completions.request import CompletionBody
from agentkit_runtime.api.openai.decode import decode as decode_chat
from agentkit_runtime.api.openai.documented import FAILURES
from agentkit_runtime.api.openai.request import ChatCompletionBody, Message, OpenModel, ToolBody
from agentkit_runtime.api.readable import require_readable
from agentkit_runtime.api.site import Site


class TokenizeBody(OpenModel):
    """A text, or a chat. Exactly one of `prompt` and `messages`."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[ToolBody] | None = None
    add_special_tokens: bool = Field(
        default=True, description="Whether a text begins with BOS where the model's do."
    )
    return_token_strs: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unreadable(cls, value: object) -> object:
        require_readable(value)
        return value


class DetokenizeBody(OpenModel):
    """Token ids."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]


class Tokenized(TypedDict):
    """Ids, how many there are, and how many fit."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Detokenized(TypedDict):
    """The text of ids."""

    prompt: str


class RenderedIds(TypedDict):
    """The ids of a request's prompt."""

    token_ids: list[int]


class TokenRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.router = APIRouter(route_class=BodyRoute)
        for path, endpoint in (
            ("/tokenize", self.tokenize),
            ("/detokenize", self.detokenize),
            ("/v1/chat/completions/render", self.render_chat),
            ("/v1/completions/render", self.render_prompts),
        ):
            self.router.add_api_route(
                path, endpoint, methods=["POST"], response_model=None, responses=FAILURES
            )

    async def tokenize(self, body: TokenizeBody, request: Request) -> Tokenized:
        """The ids of a text, or of a chat with its template."""
        service, tenant = self._site.service, require_user(request).tenant
        self._check_model(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise ApiError("send either prompt or messages", param="prompt")
        async with self._site.looking(request):
            ids = await self._ids_of(body, tenant, request)
            texts = await asyncio.to_thread(self._texts, ids) if body.return_token_strs else None
        return {
            "count": len(ids),
            "max_model_len": service.context_tokens,
            "tokens": list(ids),
            "token_strs": texts,
        }

    async def detokenize(self, body: DetokenizeBody, request: Request) -> Detokenized:
        """The text of ids, special tokens included."""
        require_user(request)
        self._check_model(body.model)
        tokenizer = self._site.service.tokenizer
        beyond = [token_id for token_id in body.tokens if token_id >= tokenizer.vocab_size]
        if beyond:
            raise ApiError(
                f"tokens has {beyond[0]}; this model's ids are 0 to {tokenizer.vocab_size - 1}",
                param="tokens",
            )
        async with self._site.looking(request):
            text = await asyncio.to_thread(tokenizer.decode, body.tokens, skip_special=False)
        return {"prompt": text}

    async def render_chat(self, body: ChatCompletionBody, request: Request) -> RenderedIds:
        """The ids of a chat completion's prompt."""
        tenant = require_user(request).tenant
        self._check_model(body.model)
        async with self._site.looking(request):
            return {"token_ids": list(await self._chat_ids(body, tenant, request))}

    async def render_prompts(self, body: CompletionBody, request: Request) -> list[RenderedIds]:
        """The ids of each prompt of a completion."""
        tenant = require_user(request).tenant
        self._check_model(body.model)
        async with self._site.looking(request):
            prepared = await asyncio.to_thread(
                decode_prompts, body, self._site.service, tenant=tenant, request_id="render"
            )
        return [{"token_ids": list(prompt.ids)} for prompt, _ in prepared]

    async def _ids_of(self, body: TokenizeBody, tenant: str, request: Request) -> tuple[int, ...]:
        if body.prompt is not None:
            return await asyncio.to_thread(
                self._site.service.ids_of_text,
                body.prompt,
                tenant=tenant,
                with_bos=body.add_special_tokens,
            )
        chat = ChatCompletionBody.model_construct(
            model=self._site.model, messages=body.messages or [], tools=body.tools
        )
        return await self._chat_ids(chat, tenant, request)

    def _texts(self, ids: tuple[int, ...]) -> list[str]:
        pieces = self._site.service.tokenizer.token_bytes
        return [pieces(token_id).decode("utf-8", errors="replace") for token_id in ids]

    async def _chat_ids(
        self, body: ChatCompletionBody, tenant: str, request: Request
    ) -> tuple[int, ...]:
        service = self._site.service
        chat = await made_of(
            request, lambda: decode_chat(body, request_id="render", service=service)
        )
        return await service.marks.prompt_ids(dataclasses.replace(chat, tenant=tenant))

    def _check_model(self, name: str | None) -> None:
        if name is not None:
            self._site.check_model(name)
