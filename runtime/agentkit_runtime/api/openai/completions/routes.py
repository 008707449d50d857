"""Endpoints of the Completions API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.large import BodyRoute
from agentkit_runtime.api.openai.completions.encode import TextChunks, encode_text_completion
from agentkit_runtime.api.openai.completions.prompts import RawPrompt, decode
from agentkit_runtime.api.openai.completions.request import CompletionBody
from agentkit_runtime.api.openai.documented import answers
from agentkit_runtime.api.openai.encode import Heading
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import DONE, EventStream, answered, event
from agentkit_runtime.reply import merged


class CompletionRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.router = APIRouter(prefix="/v1/completions", route_class=BodyRoute)
        self.router.add_api_route(
            "",
            self.create_completion,
            methods=["POST"],
            response_model=None,
            responses=answers(streamed=True),
        )

    async def create_completion(self, body: CompletionBody, request: Request) -> Response:
        """Continue prompts, streamed or whole. Ends at once when the client disconnects."""
        site = self._site
        site.check_model(body.model)
        heading = Heading(
            id=new_id("cmpl-"),
            created_s=int(site.clock()),
            model=site.model,
            fingerprint=site.service.fingerprint,
        )
        n, caller = body.n or 1, require_user(request)
        async with site.answering.turn(caller):
            prepared = await asyncio.to_thread(
                decode, body, site.service, tenant=caller.tenant, request_id=heading.id
            )
        prompts, chats = [prompt for prompt, _ in prepared], [chat for _, chat in prepared]
        echoed = [_front(prompt, body) for prompt in prompts]
        if body.stream:
            chunks = TextChunks(
                heading=heading,
                n_per_prompt=n,
                echoed=echoed,
                include_usage=body.stream_options is not None and body.stream_options.include_usage,
            )
            opened = await site.open_all(request, chats, id=heading.id, n=n)
            return EventStream(_events(opened, chunks), on_close=lambda: _close(opened))

        async def work() -> Response:
            opened = await site.open_all(request, chats, id=heading.id, n=n)
            try:
                found = await asyncio.gather(*(answer.collect() for answer in opened))
            finally:
                _close(opened)
            return JSONResponse(encode_text_completion(heading, found, echoed))

        return await answered(request.receive, work())


def _front(prompt: RawPrompt, body: CompletionBody) -> str:
    return prompt.text if body.echo else ""


def _close(answers: Sequence[Answer]) -> None:
    for answer in answers:
        answer.close()


async def _events(opened: Sequence[Answer], chunks: TextChunks) -> AsyncIterator[bytes]:
    async with AsyncExitStack() as closing:
        enter = closing.enter_async_context
        sources = [await enter(aclosing(answer.events())) for answer in opened]
        events = await enter(aclosing(merged(sources)))
        async for prompt, (answer, found) in events:
            for document in chunks.encode(prompt, answer, found):
                yield event(document)
    yield DONE
