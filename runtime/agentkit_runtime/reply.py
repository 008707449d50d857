"""From engine events to chat events: one reply while it is being generated."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Literal, Protocol, assert_never

from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ContentDelta,
    ToolCallArguments,
    ToolCallStart,
)
from agentkit_runtime.types import Delta, EngineEvent, Finished, FinishReason


class CallParser(Protocol):
    """Separates tool calls from text; `text.toolcalls.ToolCallParser`."""

    def push(self, text: str) -> list[ChatEvent]:
        """Events of more generated text."""

    def finish(self) -> list[ChatEvent]:
        """Events of what was held back; an unfinished call comes out as content."""


class EngineGeneration(Protocol):
    """A running request of the engine; `engine.Generation`."""

    def __aiter__(self) -> AsyncIterator[EngineEvent]:
        """Events; the last is `Finished`."""

    def abort(self) -> None:
        """Cancel. Idempotent, from any thread."""


class ReplyAssembler:
    """Turns the engine's events into chat events and keeps what was generated. Does no I/O.

    Without a parser (no tool may be called) all text is content.
    """

    def __init__(self, parser: CallParser | None) -> None:
        self._parser = parser
        self._text: list[str] = []
        self._content: list[str] = []
        self._names: dict[int, str] = {}
        self._arguments: dict[int, list[str]] = {}
        self.token_ids: list[int] = []
        """All generated ids so far, the end-of-turn token included where there was one."""
        self.finished: Finished | None = None

    @property
    def text(self) -> str:
        """All visible text so far, tool calls as they were written."""
        return "".join(self._text)

    @property
    def content(self) -> str:
        """All text so far that is no tool call."""
        return "".join(self._content)

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """Name and argument text of the tool calls so far."""
        return tuple(
            (self._names[index], "".join(parts)) for index, parts in self._arguments.items()
        )

    def feed(self, event: EngineEvent) -> list[ChatEvent]:
        """The chat events that `event` adds, `ChatFinished` as the very last."""
        match event:
            case Delta():
                return self._note(self._delta(event))
            case Finished():
                self.finished = event
                held_back = self._note([] if self._parser is None else self._parser.finish())
                return [*held_back, self._end(event)]
            case _:
                assert_never(event)

    def _delta(self, delta: Delta) -> list[ChatEvent]:
        self.token_ids += delta.token_ids
        if not delta.text:
            return []
        self._text.append(delta.text)
        return [ContentDelta(delta.text)] if self._parser is None else self._parser.push(delta.text)

    def _note(self, events: list[ChatEvent]) -> list[ChatEvent]:
        for event in events:
            match event:
                case ContentDelta():
                    self._content.append(event.text)
                case ToolCallStart():
                    self._names[event.index] = event.name
                    self._arguments[event.index] = []
                case ToolCallArguments():
                    self._arguments[event.index].append(event.text)
                case _:
                    pass
        return events

    def _end(self, finished: Finished) -> ChatFinished:
        return ChatFinished(
            reason=self._reason(finished.reason), stats=finished.stats, error=finished.error
        )

    def _reason(
        self, reason: FinishReason
    ) -> Literal["stop", "length", "tool_calls", "abort", "error"]:
        match reason:
            case FinishReason.STOP:
                return "tool_calls" if self._calls_are_whole() else "stop"
            case FinishReason.LENGTH:
                return "length"
            case FinishReason.ABORT:
                return "abort"
            case FinishReason.DEADLINE | FinishReason.ERROR:
                return "error"

    def _calls_are_whole(self) -> bool:
        """A stop string can end the text inside a call; that is no call that could be run."""
        return bool(self._arguments) and all(map(_is_json, self._arguments.values()))


class ChatStream:
    """The chat events of one request, as an async iterator.

    The request runs from the moment this object exists: whoever holds it reads it to the end or
    calls `abort`. Cancelling the task that reads it does not abort by itself.
    """

    def __init__(
        self,
        generation: EngineGeneration,
        assembler: ReplyAssembler,
        on_finished: Callable[[ReplyAssembler], None],
    ) -> None:
        """`on_finished` is called once, when the reply is complete and before its last events."""
        self._generation = generation
        self._engine_events = aiter(generation)
        self._assembler = assembler
        self._on_finished = on_finished
        self._pending: deque[ChatEvent] = deque()

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> ChatEvent:
        while not self._pending:
            # Ends the iteration too, by StopAsyncIteration, when the engine has no more events.
            event = await anext(self._engine_events)
            events = self._assembler.feed(event)
            if isinstance(event, Finished):
                self._on_finished(self._assembler)
            self._pending.extend(events)
        return self._pending.popleft()

    def abort(self) -> None:
        """Give the request's slots back within one step. Idempotent; without effect at the end."""
        if self._assembler.finished is None:
            self._generation.abort()


def _is_json(parts: Iterable[str]) -> bool:
    try:
        json.loads("".join(parts))
    except ValueError:
        return False
    return True
