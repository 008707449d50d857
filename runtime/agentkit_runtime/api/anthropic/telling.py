"""One answer on its way to the client: usage first, then what is generated, then the end.

Anthropic's streams begin with a usage, so nothing but pings is sent before the prompt is computed:
what was read from the cache, and what of it is pinned, is known then and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.anthropic.decode import Front
from agentkit_runtime.api.anthropic.encode import MessageEncoder
from agentkit_runtime.api.anthropic.usage import Kept, usage_of
from agentkit_runtime.api.anthropic.wire import StreamEvent, Usage
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatEvent, ChatFinished

PING_S = 10.0
"""How often a client is told that it is still waited for its prompt: some give up in silence."""

Keep = Callable[[tuple[int, ...]], Awaitable[list[int]]]
"""Pins what is marked of a computed prompt; see `Marks.keep`."""


@dataclass(slots=True, kw_only=True)
class Telling:
    """Tells one answer."""

    answer: Answer
    encoder: MessageEncoder
    fronts: tuple[Front, ...]
    keep: Keep
    ping_s: float = PING_S
    usage: Usage | None = None
    """What is known so far."""

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """The events of the stream.

        Raises:
            ApiError: the generation failed.
        """
        kept: list[Kept] | None = None
        async with (
            aclosing(self.answer.events()) as events,
            aclosing(_with_pings(events, self.ping_s)) as pinged,
        ):
            async for event in pinged:
                if event is None:
                    yield {"type": "ping"}
                    continue
                stats = event.stats if isinstance(event, ChatFinished) else None
                if kept is None:
                    begun = self.answer.streams[0].begun or stats
                    assert begun is not None, "the first event comes with, or behind, a token"
                    kept = [] if _failed(event) else await self._kept()
                    self.usage = usage_of(begun, kept, self.answer.chat.priority)
                    yield self.encoder.start(self.usage)
                for told in self.encoder.encode(event):
                    yield told
                if isinstance(event, ChatFinished):
                    self.usage = usage_of(event.stats, kept, self.answer.chat.priority)
                    for told in self.encoder.end(event, self.usage):
                        yield told

    async def _kept(self) -> list[Kept]:
        if not self.fronts:
            return []
        stream = self.answer.streams[0]
        places = await self.keep(stream.ids[: stream.n_prompt_ids])
        return [
            Kept(n_tokens, front.ttl) for n_tokens, front in zip(places, self.fronts, strict=True)
        ]


def _failed(event: ChatEvent) -> bool:
    return isinstance(event, ChatFinished) and event.reason in ("abort", "error")


async def _with_pings(
    events: AsyncIterator[tuple[int, ChatEvent]], every_s: float
) -> AsyncGenerator[ChatEvent | None, None]:
    """The events, and None each time that the first of them makes itself awaited."""
    first = asyncio.ensure_future(anext(events, None))
    try:
        while not (await asyncio.wait({first}, timeout=every_s))[0]:
            yield None
        found = first.result()
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    if found is None:
        raise ApiError("the generation ended without a final event", status=500)
    yield found[1]
    async for _, event in events:
        yield event
