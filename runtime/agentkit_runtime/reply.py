"""From engine events to chat events: one reply while it is being generated."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Sequence,
)
from typing import Literal, Protocol, TypeVar, assert_never

from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ChatLogprob,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
)
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    FinishReason,
    RequestStats,
    TokenLogprob,
)

T = TypeVar("T")


class CallParser(Protocol):
    """Separates tool calls from text; `text.toolcalls.ToolCallParser`."""

    def push(self, text: str) -> list[ChatEvent]:
        """Events of more generated text."""

    def finish(self) -> list[ChatEvent]:
        """Events of what was held back; an unfinished call comes out as content."""


class ThoughtParser(Protocol):
    """Separates thinking from text; `text.reasoning.ReasoningParser`."""

    @property
    def is_thinking(self) -> bool:
        """Whether the text so far ends inside thinking."""

    def push(self, text: str) -> list[ReasoningDelta | ContentDelta]:
        """Events of more generated text."""

    def finish(self) -> list[ReasoningDelta | ContentDelta]:
        """Events of what was held back."""


class EngineGeneration(Protocol):
    """A running request of the engine; `engine.Generation`."""

    request_id: str

    def __aiter__(self) -> AsyncIterator[EngineEvent]:
        """Events; the last is `Finished`."""

    def abort(self) -> None:
        """Cancel. Idempotent, from any thread."""


class ReplyAssembler:
    """Turns the engine's events into chat events and keeps what was generated. Does no I/O.

    Without a parser (no tool may be called) all text is content. `token_bytes` says what a token
    stands for; it is asked only where the engine tells log-probabilities. With `thoughts` thinking
    is told apart before calls are looked for.
    """

    def __init__(
        self,
        parser: CallParser | None,
        token_bytes: Callable[[int], bytes] | None = None,
        thoughts: ThoughtParser | None = None,
    ) -> None:
        self._parser = parser
        self._thoughts = thoughts
        self._n_reasoning = 0
        self._token_bytes = token_bytes
        self._logprobs: list[ChatLogprob] = []
        self._text: list[str] = []
        self._content: list[str] = []
        self._names: dict[int, str] = {}
        self._arguments: dict[int, list[str]] = {}
        self.token_ids: list[int] = []
        """All generated ids so far, the end-of-turn token included where there was one."""
        self.finished: Finished | None = None
        self.begun: RequestStats | None = None
        """What was known of the request when its first token came; None before that."""
        self._stop: str | None = None

    @property
    def text(self) -> str:
        """All visible text so far, tool calls as they were written."""
        return "".join(self._text)

    @property
    def content(self) -> str:
        """All text so far that is neither thinking nor a tool call."""
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
                return [*self._note(self._held_back()), self._end(event)]
            case _:
                assert_never(event)

    def _delta(self, delta: Delta) -> list[ChatEvent]:
        self.token_ids += delta.token_ids
        self.begun = self.begun or delta.stats
        self._stop = delta.stop
        if self._token_bytes is not None:
            self._logprobs += [_chat_logprob(item, self._token_bytes) for item in delta.logprobs]
        if not delta.text:
            return []
        self._text.append(delta.text)
        return self._without_thoughts(delta)

    def _without_thoughts(self, delta: Delta) -> list[ChatEvent]:
        if self._thoughts is None:
            return self._without_calls([ContentDelta(delta.text)])
        told = self._thoughts.push(delta.text)
        if self._thoughts.is_thinking or any(isinstance(event, ReasoningDelta) for event in told):
            self._n_reasoning += len(delta.token_ids)
        if self._thoughts.is_thinking:
            self._logprobs.clear()  # no API tells those of thinking and its tags
        return self._without_calls(told)

    def _without_calls(self, told: Sequence[ReasoningDelta | ContentDelta]) -> list[ChatEvent]:
        if self._parser is None:
            return [*told]
        events: list[ChatEvent] = []
        for event in told:
            events += (
                [event] if isinstance(event, ReasoningDelta) else self._parser.push(event.text)
            )
        return events

    def _held_back(self) -> list[ChatEvent]:
        told = [] if self._thoughts is None else self._thoughts.finish()
        return [
            *self._without_calls(told),
            *([] if self._parser is None else self._parser.finish()),
        ]

    def _note(self, events: list[ChatEvent]) -> list[ChatEvent]:
        for n, event in enumerate(events):
            match event:
                case ContentDelta():
                    self._content.append(event.text)
                    events[n] = ContentDelta(event.text, tuple(self._logprobs))
                case ToolCallStart():
                    self._names[event.index] = event.name
                    self._arguments[event.index] = []
                case ToolCallArguments():
                    self._arguments[event.index].append(event.text)
                case _:
                    continue
            self._logprobs.clear()
        return events

    def _end(self, finished: Finished) -> ChatFinished:
        return ChatFinished(
            reason=self._reason(finished.reason),
            late=finished.reason is FinishReason.DEADLINE,
            stats=finished.stats,
            error=finished.error,
            reasoning_tokens=self._n_reasoning,
            stop=self._stop,
            token_ids=tuple(self.token_ids),
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
        prompt_ids: tuple[int, ...] = (),
    ) -> None:
        """`on_finished` is called once, when the reply is complete and before its last events."""
        self._prompt_ids = prompt_ids
        self._generation = generation
        self._engine_events = aiter(generation)
        self._assembler = assembler
        self._on_finished = on_finished
        self._pending: deque[ChatEvent] = deque()

    def __aiter__(self) -> ChatStream:
        return self

    @property
    def engine_id(self) -> str:
        """The id by which the engine knows the request."""
        return self._generation.request_id

    @property
    def ids(self) -> tuple[int, ...]:
        """What the model has read and said so far: ids of the prompt and of the reply."""
        return (*self._prompt_ids, *self._assembler.token_ids)

    @property
    def begun(self) -> RequestStats | None:
        """What was known of the request when its first token came; None before that."""
        return self._assembler.begun

    @property
    def n_prompt_ids(self) -> int:
        """How many of `ids` are the prompt's."""
        return len(self._prompt_ids)

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


def abort_all(streams: Iterable[ChatStream]) -> None:
    """Abort each; without effect on those that have ended."""
    for stream in streams:
        stream.abort()


async def merged(streams: Sequence[AsyncIterable[T]]) -> AsyncGenerator[tuple[int, T], None]:
    """The events of several streams, such as replies, as they come, each with its stream's rank.

    Whoever has made the streams closes them, behind this one.
    """
    if len(streams) == 1:
        async for event in streams[0]:
            yield 0, event
        return
    events: asyncio.Queue[tuple[int, T] | None] = asyncio.Queue()

    async def pump(rank: int) -> None:
        try:
            async for event in streams[rank]:
                events.put_nowait((rank, event))
        finally:
            events.put_nowait(None)

    tasks = [asyncio.ensure_future(pump(rank)) for rank in range(len(streams))]
    try:
        n_open = len(streams)
        while n_open:
            found = await events.get()
            if found is None:
                n_open -= 1
            else:
                yield found
        for task in tasks:
            await task  # raises what its stream raised
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _chat_logprob(item: TokenLogprob, token_bytes: Callable[[int], bytes]) -> ChatLogprob:
    return ChatLogprob(
        token=token_bytes(item.token_id),
        logprob=item.logprob,
        top=tuple((token_bytes(token_id), logprob) for token_id, logprob in item.top),
    )


def _is_json(parts: Iterable[str]) -> bool:
    try:
        json.loads("".join(parts))
    except ValueError:
        return False
    return True
