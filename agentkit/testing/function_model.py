"""A model that is a function: it looks at the conversation and answers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

from agentkit.blocks import Message
from agentkit.context.segment import SystemText
from agentkit.events import (
    FinishReason,
    ModelEnd,
    ModelEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
)
from agentkit.models.base import ModelRequest, Settings, ToolChoice
from agentkit.models.doubles import Call, ModelCall, PerfectCache, Reply, Say, spoken, with_output
from agentkit.models.scripted import reply_of
from agentkit.toolset import ToolSpec
from agentkit.usage import Timing, Usage


@dataclass(frozen=True, slots=True)
class AskInfo:
    """What a function model is told beside the conversation."""

    request: ModelRequest
    """All of it."""

    @property
    def agent(self) -> str:
        """Name of the agent that asks."""
        return self.request.agent

    @property
    def system(self) -> str:
        """The texts that lead the prompt, without tools and documents, one below the other."""
        contents = (segment.content for segment in self.request.context)
        return "\n\n".join(each.text for each in contents if isinstance(each, SystemText))

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that may be called now."""
        allowed = self.request.callable_tools
        return tuple(
            spec for spec in self.request.shown_tools if allowed is None or spec.name in allowed
        )

    @property
    def tool_choice(self) -> ToolChoice:
        """Whether a tool may, must or must not be called."""
        return self.request.tool_choice

    @property
    def output_schema(self) -> Mapping[str, object] | None:
        """JSON schema of the final answer; None is free text."""
        return self.request.output_schema

    @property
    def settings(self) -> Settings:
        """How the model should generate."""
        return self.request.settings


Spoken: TypeAlias = str | Say | Call | Reply | Sequence[Say | Call]
"""One turn."""
Streamed: TypeAlias = AsyncIterator[ModelEvent | str]
"""One turn as it is streamed: events, and text as strings."""
Function: TypeAlias = Callable[
    [tuple[Message, ...], AskInfo], "Spoken | Awaitable[Spoken] | Streamed"
]


class FunctionModel:
    """Answers each request with what a function says.

        def answer(messages, info):
            return "ok" if info.agent == "child" else Call("look", {"at": "sky"})

        FunctionModel(answer)

    The function may also be `async`, or an async generator, which yields text and model events as
    they come; usage and the end of the turn are added where it yields none. Exceptions are the
    model's: raise `ModelError(..., retryable=True)` to see a turn asked again.

    Args:
        function: gets the conversation, oldest message first, and `AskInfo`.
        label: what reports call the model.
        chunk: characters in one delta, where the function answers at once.
        siblings_start_together: see `Model`.
    """

    def __init__(
        self,
        function: Function,
        *,
        label: str = "function",
        chunk: int = 7,
        siblings_start_together: bool = True,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a function (messages, info) -> answer is needed, got {function!r}")
        self._function = function
        self._label = label
        self._chunk = chunk
        self._siblings_start_together = siblings_start_together
        self._cache = PerfectCache()

    @property
    def label(self) -> str:
        """What reports call the model."""
        return self._label

    @property
    def costs_nothing(self) -> bool:
        """True: under a limit on money it may be asked."""
        return True

    @property
    def siblings_start_together(self) -> bool:
        """As given to the constructor."""
        return self._siblings_start_together

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """All requests so far, in order."""
        return self._cache.calls

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the function.

        Raises:
            Exception: what it raises.
            TypeError: it answered with something that is no turn.
        """
        counted = self._cache.count(request)
        said = self._function(request.context.messages, AskInfo(request))
        if isinstance(said, AsyncIterator):
            events = _streamed(said, counted)
        else:
            turn = await said if inspect.isawaitable(said) else said
            reply = reply_of(_checked(turn, self._function), request)
            events = spoken(reply, request, counted, chunk=self._chunk)
        async with aclosing(events):
            async for event in events:
                yield event

    def __repr__(self) -> str:
        return f"FunctionModel({getattr(self._function, '__name__', self._function)})"


def _checked(turn: object, function: Function) -> Spoken:
    parts = turn if isinstance(turn, Sequence) and not isinstance(turn, str) else (turn,)
    if parts and all(isinstance(part, str | Say | Call | Reply) for part in parts):
        return turn  # type: ignore[return-value]
    raise TypeError(
        f"the function model {function!r} must answer with text, Say, Call, Reply or a list of Say "
        f"and Call, got {turn!r:.200}"
    )


async def _streamed(said: Streamed, counted: Usage) -> AsyncGenerator[ModelEvent, None]:
    n_bytes, finish, usage = 0, "stop", False
    ended = False
    try:
        async for event in said:
            match event:
                case str():
                    event = TextDelta(event)
                    n_bytes += len(event.text.encode())
                case TextDelta() | ToolCallArguments():
                    n_bytes += len(event.text.encode())
                case ToolCallStarted():
                    finish = "tool_calls"
                case UsageEvent():
                    usage = True
                case ModelEnd():
                    ended = True
                    if not usage:
                        yield _usage(counted, n_bytes)
                case _:
                    pass
            yield event
    finally:
        if isinstance(said, AsyncGenerator):
            await said.aclose()
    if not ended:
        if not usage:
            yield _usage(counted, n_bytes)
        yield ModelEnd(_FINISHES[finish])


def _usage(counted: Usage, n_bytes: int) -> UsageEvent:
    usage = with_output(counted, n_bytes)
    return UsageEvent(usage=usage, timing=Timing(ttft_s=0.0, total_s=0.0))


_FINISHES: Mapping[str, FinishReason] = {"stop": "stop", "tool_calls": "tool_calls"}
