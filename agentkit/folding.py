"""How a model's events become a turn, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, assert_never

from agentkit.blocks import (
    AssistantBlock,
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    VendorItem,
    printable,
)
from agentkit.errors import ModelError
from agentkit.events import (
    CacheEvent,
    FinishReason,
    ModelEnd,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallArguments,
    ToolCallStarted,
    Turn,
    UsageEvent,
    VendorItemEvent,
)
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.verdict import Verdict


def fold(events: Iterable[ModelEvent]) -> Turn:
    """Return the turn that a complete stream adds up to. Pure; how deltas are cut is no matter.

    Raises:
        ModelError: the stream was cut off (retryable) or breaks the protocol.
    """
    builder = TurnBuilder()
    for event in events:
        builder.push(event)
    return builder.finish()


class TurnBuilder:
    """`fold`, one event at a time. Cost is linear in the length of the stream."""

    def __init__(self) -> None:
        self._blocks: list[_TextParts | _CallParts | _Item] = []
        self._calls: dict[int, _CallParts] = {}
        self._usage = Usage()
        self._timing = Timing()
        self._first: Usage | None = None
        self._verdict: Verdict | None = None
        self._model: str | None = None
        self._end: FinishReason | None = None

    def push(self, event: ModelEvent) -> None:
        """Add the next event.

        Raises:
            ModelError: it cannot come here.
        """
        if self._end is not None:
            raise ModelError(f"the model sent {event!r} after its end")
        match event:
            case TextDelta():
                self._text("text").add(event.text)
            case ThinkingDelta():
                parts = self._text("thinking")
                parts.add(event.text)
                parts.signature = event.signature or parts.signature
                parts.source = event.source or parts.source
            case VendorItemEvent():
                self._blocks.append(_Item(event))
            case ToolCallStarted():
                self._start_call(event)
            case ToolCallArguments():
                self._call(event).arguments.append(event.text)
            case UsageEvent():
                self._usage = self._usage.merge(event.usage)
                self._first = event.first or self._first
                self._model = event.model or self._model
                self._timing = self._timing.merge(event.timing)
            case CacheEvent():
                self._verdict = event.verdict
            case ModelEnd():
                self._end = event.finish
            case _:
                assert_never(event)

    @property
    def spent(self) -> tuple[Usage, Timing]:
        """What is known of the request's cost so far, also if it never ends well."""
        return self._usage, self._timing

    @property
    def verdict(self) -> Verdict | None:
        """What the cache did, if the model has said so."""
        return self._verdict

    @property
    def model(self) -> str | None:
        """Who answers, where it is not the model that was asked."""
        return self._model

    @property
    def n_bytes(self) -> int:
        """How much the model has written so far, thinking included."""
        return sum(parts.n_bytes for parts in self._blocks)

    def finish(self) -> Turn:
        """Return the turn.

        Raises:
            ModelError: the stream has no `ModelEnd` yet.
        """
        if self._end is None:
            error = ModelError("the model's stream was cut off before its end", retryable=True)
            error.response_began = True
            raise error
        blocks = [parts.block() for parts in self._blocks]
        return Turn(
            message=AssistantMessage(tuple(block for block in blocks if block is not None)),
            finish=self._end,
            usage=self._usage,
            timing=self._timing,
            verdict=self._verdict,
            first=self._first,
            model=self._model,
        )

    def _text(self, kind: Literal["text", "thinking"]) -> _TextParts:
        last = self._blocks[-1] if self._blocks else None
        # A signature closes its thinking block: what follows is a new one.
        if isinstance(last, _TextParts) and last.kind == kind and last.signature is None:
            return last
        parts = _TextParts(kind)
        self._blocks.append(parts)
        return parts

    def _start_call(self, event: ToolCallStarted) -> None:
        if event.index in self._calls:
            raise ModelError(f"the model started call {event.index!r} twice")
        if any(call.id == event.id for call in self._calls.values()):
            raise ModelError(f"the model gave two calls of one turn the same id {event.id!r}")
        self._calls[event.index] = parts = _CallParts(event.id, event.name)
        self._blocks.append(parts)

    def _call(self, event: ToolCallArguments) -> _CallParts:
        if event.index not in self._calls:
            raise ModelError(f"the model sent arguments of call {event.index!r} before its start")
        return self._calls[event.index]


class _TextParts:
    """A text or thinking block that still grows."""

    def __init__(self, kind: Literal["text", "thinking"]) -> None:
        self.kind = kind
        self.signature: str | None = None
        self.source: str | None = None
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        self._parts.append(text)

    @property
    def n_bytes(self) -> int:
        return sum(len(text.encode(errors="replace")) for text in self._parts)

    def block(self) -> AssistantBlock | None:
        text = printable("".join(self._parts))
        if self.kind == "thinking":
            there = text or self.signature
            return Thinking(text, self.signature, self.source) if there else None
        return Text(text) if text else None


class _Item:
    """A vendor's item, which comes whole."""

    def __init__(self, event: VendorItemEvent) -> None:
        self._event = event

    @property
    def n_bytes(self) -> int:
        return len(self._event.data.encode(errors="replace"))

    def block(self) -> AssistantBlock:
        return VendorItem(source=self._event.source, data=printable(self._event.data))


class _CallParts:
    """A tool call that still grows."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []

    @property
    def n_bytes(self) -> int:
        return sum(len(text.encode(errors="replace")) for text in self.arguments)

    def block(self) -> AssistantBlock:
        return ToolCall(
            id=printable(self.id),
            name=printable(self.name),
            arguments=printable("".join(self.arguments)),
        )
