"""What models for tests share: what they say, what they were asked, and how that is counted."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field

from agentkit.blocks import AssistantMessage, Json
from agentkit.events import (
    FinishReason,
    ModelEnd,
    ModelEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
)
from agentkit.models.base import ModelRequest
from agentkit.usage import Timing, Usage


@dataclass(frozen=True, slots=True)
class Say:
    """The model answers with text."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool."""

    name: str
    arguments: Mapping[str, Json] | str = field(default_factory=dict)
    """An object, or the exact text, which may be broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One turn in full."""

    parts: tuple[Say | Call, ...]
    finish: FinishReason | None = None
    """None: `tool_calls` if there is a call, else `stop`."""
    usage: Usage | None = None
    """None: counted as if the model had a perfect prefix cache, see `ScriptedModel`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request that a model was asked."""

    request: ModelRequest
    """Immutable, so it is what was asked, whatever happened later."""

    @property
    def wire(self) -> bytes:
        """The prefix in neutral form, see `ModelRequest.wire`."""
        return self.request.wire


class PerfectCache:
    """Records requests, and counts their tokens as if nothing ever left a prefix cache.

    Four bytes of the wire are a token. Read are the whole segments that a request has in common
    with any earlier one. Usable from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[ModelCall] = []
        self._cached: set[str] = set()

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """All requests so far, in order."""
        return tuple(self._calls)

    def count(self, request: ModelRequest) -> Usage:
        """Record a request; returns its usage, without output."""
        sizes = [len(segment.data) for segment in request.context]
        chain = request.context.chain
        with self._lock:
            n_known = next((n for n in range(len(chain), 0, -1) if chain[n - 1] in self._cached), 0)
            self._cached.update(chain)
            self._calls.append(ModelCall(request=request))
        read = sum(sizes[:n_known]) // _TOKEN_BYTES
        total = sum(sizes) // _TOKEN_BYTES
        return Usage(
            input_tokens=total,
            cache_read_tokens=read,
            cache_write_tokens=total - read,
            output_tokens=0,
        )


async def spoken(
    reply: Reply, request: ModelRequest, counted: Usage, *, chunk: int
) -> AsyncGenerator[ModelEvent, None]:
    """Yield a reply as a model's stream, in deltas of `chunk` characters."""
    for index, event in enumerate(_events(reply, n_calls_before(request), chunk)):
        if index:
            await asyncio.sleep(0)  # as on a network, others run between two deltas
        yield event
    usage = reply.usage or with_output(counted, sum(len(text) for text in _texts(reply)))
    yield UsageEvent(usage=usage, timing=Timing(ttft_s=0.0, total_s=0.0))
    yield ModelEnd(reply.finish or _finish(reply))


def with_output(counted: Usage, n_bytes: int) -> Usage:
    """Return a usage with so many bytes of output, rounded up to tokens."""
    nothing = {"input_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0}
    return counted + Usage(**nothing, output_tokens=-(-n_bytes // _TOKEN_BYTES))


def n_calls_before(request: ModelRequest) -> int:
    """Return how many calls the conversation has: ids that follow from it are the same anywhere.

    A run that goes on in another process gets the ids that it would have got in its own.
    """
    contents = (segment.content for segment in request.context)
    return sum(len(each.calls) for each in contents if isinstance(each, AssistantMessage))


_TOKEN_BYTES = 4


def _events(reply: Reply, n_before: int, chunk: int) -> Iterator[ModelEvent]:
    index = 0
    for part in reply.parts:
        if isinstance(part, Say):
            yield from (TextDelta(text) for text in _chunks(part.text, chunk))
            continue
        yield ToolCallStarted(index=index, id=f"call_{n_before + index + 1}", name=part.name)
        for text in _chunks(_arguments(part), chunk):
            yield ToolCallArguments(index=index, text=text)
        index += 1


def _texts(reply: Reply) -> Iterator[bytes]:
    for part in reply.parts:
        yield (part.text if isinstance(part, Say) else _arguments(part)).encode()


def _arguments(call: Call) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def _finish(reply: Reply) -> FinishReason:
    return "tool_calls" if any(isinstance(part, Call) for part in reply.parts) else "stop"


def _chunks(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
