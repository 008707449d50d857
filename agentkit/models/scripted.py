"""A model that replays a script and records what it was asked. For tests, yours and ours."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agentkit.blocks import Json
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


Step: TypeAlias = "str | Say | Call | Reply | Exception | Sequence[Say | Call] | Respond"
"""One turn: text, parts, an exception that the model raises, or a function that decides."""
Respond: TypeAlias = Callable[[ModelRequest], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request that the model was asked."""

    request: ModelRequest
    """Immutable, so it is what was asked, whatever happened later."""

    @property
    def wire(self) -> bytes:
        """The prefix in neutral form, see `ModelRequest.wire`."""
        return self.request.wire


class UnexpectedCall(AssertionError):
    """The script has no step for a request."""


class UnconsumedSteps(AssertionError):
    """The script has steps that were never asked for, or was asked for more than it has."""


class ScriptedModel:
    """Replays steps in order, one for each request.

    Usage is counted over the wire, four bytes a token, as if the model had a prefix cache that
    nothing ever leaves: tokens read = the whole segments that a request has in common with any
    earlier one.

    Args:
        script: the steps; or, for a team, the steps of each agent by its name. A lone function
        answers
            every request.
        label: what reports call the model.
        chunk: characters in one delta.
        siblings_start_together: see `Model`.
    """

    def __init__(
        self,
        script: Sequence[Step] | Mapping[str, Sequence[Step]] | Respond,
        *,
        label: str = "scripted",
        chunk: int = 7,
        siblings_start_together: bool = True,
    ) -> None:
        self._script = script if callable(script) else _queues(script)
        self._label = label
        self._chunk = chunk
        self._siblings_start_together = siblings_start_together
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._calls: list[ModelCall] = []
        self._cached: set[str] = set()
        self._unexpected: list[str] = []

    @property
    def label(self) -> str:
        """What reports call the model."""
        return self._label

    @property
    def siblings_start_together(self) -> bool:
        """As given to the constructor."""
        return self._siblings_start_together

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """All requests so far, in order."""
        return tuple(self._calls)

    def calls_of(self, agent: str) -> tuple[ModelCall, ...]:
        """The requests of one agent, in order."""
        return tuple(call for call in self._calls if call.request.agent == agent)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Replay the next step.

        Raises:
            UnexpectedCall: there is none.
            Exception: the step is one.
        """
        with self._lock:
            usage = self._count(request)
            self._calls.append(ModelCall(request=request))
            step = self._next(request)
        reply = _reply(step, request)
        for index, event in enumerate(self._events(reply)):
            if index:
                await asyncio.sleep(0)  # as on a network, others run between two deltas
            yield event
        usage = usage + Usage(**{**_NOTHING, "output_tokens": _tokens(reply)})
        yield UsageEvent(usage=reply.usage or usage, timing=Timing(ttft_s=0.0, total_s=0.0))
        yield ModelEnd(reply.finish or _finish(reply))

    def assert_consumed(self) -> None:
        """Check that every step was asked for, and nothing more.

        Raises:
            UnconsumedSteps: says which agent's script does not fit.
        """
        queues = {} if callable(self._script) else self._script
        problems = [f"{len(left)} steps left for {name}" for name, left in queues.items() if left]
        problems += self._unexpected
        if problems:
            raise UnconsumedSteps("; ".join(problems))

    def __repr__(self) -> str:
        return f"ScriptedModel({self._label!r}, {len(self._calls)} calls)"

    def _next(self, request: ModelRequest) -> Step:
        if callable(self._script):
            return self._script
        queue = self._script.get(repr(request.agent), self._script.get(_ANY))
        if queue:
            return queue.popleft()
        problem = f"call {len(self._calls)}, by agent {request.agent!r}, has no step in the script"
        self._unexpected.append(problem)
        raise UnexpectedCall(f"{problem}; the context ends with {_tail(request)}")

    def _count(self, request: ModelRequest) -> Usage:
        sizes = [len(segment.data) for segment in request.context]
        chain = request.context.chain
        n_known = next((n for n in range(len(chain), 0, -1) if chain[n - 1] in self._cached), 0)
        self._cached.update(chain)
        read = sum(sizes[:n_known]) // _TOKEN_BYTES
        total = sum(sizes) // _TOKEN_BYTES
        return Usage(
            input_tokens=total,
            cache_read_tokens=read,
            cache_write_tokens=total - read,
            output_tokens=0,
        )

    def _events(self, reply: Reply) -> Iterator[ModelEvent]:
        index = 0
        for part in reply.parts:
            if isinstance(part, Say):
                yield from (TextDelta(text) for text in _chunks(part.text, self._chunk))
                continue
            yield ToolCallStarted(index=index, id=f"call_{next(self._ids)}", name=part.name)
            for text in _chunks(_arguments(part), self._chunk):
                yield ToolCallArguments(index=index, text=text)
            index += 1


_ANY = "any agent"
_TOKEN_BYTES = 4
_NOTHING = {"input_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0}


def _queues(
    script: Sequence[Step] | Mapping[str, Sequence[Step]],
) -> dict[str, deque[Step]]:
    if isinstance(script, Mapping):
        return {repr(agent): deque(steps) for agent, steps in script.items()}
    if isinstance(script, str):
        raise TypeError(f"a script is a list of steps, got the string {script!r}; use [{script!r}]")
    return {_ANY: deque(script)}


def _reply(step: Step, request: ModelRequest) -> Reply:
    match step:
        case Reply():
            return step
        case str():
            return Reply(parts=(Say(step),))
        case Say() | Call():
            return Reply(parts=(step,))
        case Exception():
            raise step
        case _ if callable(step):
            return _reply(step(request), request)
        case _:
            return Reply(parts=tuple(step))


def _arguments(call: Call) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def _finish(reply: Reply) -> FinishReason:
    return "tool_calls" if any(isinstance(part, Call) for part in reply.parts) else "stop"


def _tokens(reply: Reply) -> int:
    texts = [part.text if isinstance(part, Say) else _arguments(part) for part in reply.parts]
    return -(-sum(len(text.encode()) for text in texts) // _TOKEN_BYTES)


def _chunks(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _tail(request: ModelRequest) -> str:
    messages = request.context.messages
    return repr(messages[-1])[:300] if messages else "no message"
