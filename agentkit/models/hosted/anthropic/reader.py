"""A streamed answer as neutral events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agentkit.errors import ModelError, RequestRefused
from agentkit.events import FinishReason, ModelEnd, ModelEvent, VendorItemEvent
from agentkit.folding import fold
from agentkit.models.hosted.anthropic.blocks import (
    BlockReader,
    CallReader,
    ItemReader,
    TextReader,
    ThinkingReader,
    dumps_text,
)
from agentkit.models.hosted.anthropic.calls import CallLog
from agentkit.models.hosted.anthropic.diagnostics import cache_note
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.messages import message_pieces
from agentkit.models.hosted.anthropic.usage import UsageMeter
from agentkit.models.hosted.anthropic.vendor import CONTAINER, MESSAGE_ID, is_thinking
from agentkit.usage import Timing

_FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class AnswerReader:
    """Translates the events of one answer, which takes more than one response if it is paused."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        keeps_thinking: bool,
        remembers_id: bool,
        clock: Callable[[], float],
    ) -> None:
        self.container: str | None = None
        """The sandbox that the answer uses."""
        self._dialect = dialect
        self._keeps_thinking = keeps_thinking
        self._remembers_id = remembers_id
        self._clock = clock
        self._started = clock()
        self._ttft_s: float | None = None
        self._meter = UsageMeter(dialect.label.partition(":")[2])
        self._events: list[ModelEvent] = []
        self._blocks: dict[object, BlockReader] = {}
        self._n_calls = 0
        self._after_text = False
        self._stop_reason: str | None = None
        self._is_complete = False

    def read(self, event: Mapping[str, object]) -> Iterator[ModelEvent]:
        """Yield what an event of the API means.

        Raises:
            RequestRefused: the model refuses to answer.
        """
        for translated in self._translate(event):
            self._events.append(translated)
            yield translated

    @property
    def is_paused(self) -> bool:
        """Whether the API paused a long turn of its own tools, and waits to be asked to go on.

        Raises:
            ModelError: the response was cut off.
        """
        if not self._is_complete:
            raise ModelError(
                f"{self._dialect.label} ended its stream before its answer", retryable=True
            )
        return self._stop_reason == "pause_turn"

    def resume(self) -> tuple[bytes, ...]:
        """Return the paused turn as the next request must have it, and expect its response."""
        message = fold([*self._events, ModelEnd("stop")]).message
        calls = CallLog(self._dialect).turn(message)
        self._meter.next_response()
        self._blocks.clear()
        self._stop_reason = None
        self._is_complete = False
        return tuple(piece.data for piece in message_pieces(message, self._dialect, calls))

    def end(self) -> Iterator[ModelEvent]:
        """Yield the last events."""
        yield self._meter.event(
            timing=Timing(ttft_s=self._ttft_s, total_s=self._clock() - self._started)
        )
        by_content: FinishReason = "tool_calls" if self._n_calls else "stop"
        yield ModelEnd(_FINISH.get(self._stop_reason or "", by_content))

    def _translate(self, event: Mapping[str, object]) -> Iterator[ModelEvent]:
        match event.get("type"):
            case "message_start":
                yield from self._start(_object(event.get("message")))
            case "content_block_start":
                self._saw_token()
                reader = self._reader(_object(event.get("content_block")))
                self._blocks[event.get("index")] = reader
                yield from reader.start()
            case "content_block_delta":
                yield from self._block(event).delta(_object(event.get("delta")))
            case "content_block_stop":
                yield from self._block(event).stop()
            case "message_delta":
                yield from self._delta(event)
            case "message_stop":
                self._is_complete = True

    def _start(self, message: dict[str, object]) -> Iterator[ModelEvent]:
        self._meter.update(message.get("usage"))
        yield self._meter.event(note=cache_note(message))
        identity = message.get("id")
        if self._remembers_id and isinstance(identity, str):
            yield self._item({MESSAGE_ID: identity})

    def _delta(self, event: Mapping[str, object]) -> Iterator[ModelEvent]:
        delta = _object(event.get("delta"))
        self._meter.update(event.get("usage"))
        self._stop_reason = str(delta.get("stop_reason"))
        yield self._meter.event(
            timing=Timing(ttft_s=self._ttft_s), note=cache_note(event) or cache_note(delta)
        )
        found = _object(delta.get("container")).get("id")
        if isinstance(found, str):
            self.container = found
            yield self._item({CONTAINER: found})
        if self._stop_reason == "refusal":
            raise RequestRefused(_refusal(self._dialect.label, delta.get("stop_details")))

    def _reader(self, block: dict[str, object]) -> BlockReader:
        label = self._dialect.label
        follows_text, self._after_text = self._after_text, False
        match block.get("type"):
            case "text":
                self._after_text = True
                return TextReader(block, label, follows_text=follows_text)
            case "thinking":
                return ThinkingReader(block, label if self._keeps_thinking else None)
            case "tool_use":
                self._n_calls += 1
                return CallReader(block, label, self._n_calls - 1)
            case other:
                is_kept = self._keeps_thinking or not is_thinking(str(other))
                return ItemReader(block, label, is_kept=is_kept)

    def _block(self, event: Mapping[str, object]) -> BlockReader:
        reader = self._blocks.get(event.get("index"))
        if reader is None:
            raise ModelError(f"{self._dialect.label} sent {event!r} for a block that never began")
        return reader

    def _item(self, fields: Mapping[str, object]) -> VendorItemEvent:
        return VendorItemEvent(source=self._dialect.label, data=dumps_text(fields))

    def _saw_token(self) -> None:
        if self._ttft_s is None:
            self._ttft_s = self._clock() - self._started


def _refusal(label: str, details: object) -> str:
    found = _object(details)
    category = f" ({found['category']})" if found.get("category") else ""
    explanation = f": {found['explanation']}" if found.get("explanation") else ""
    return f"{label} refused to answer{category}{explanation}"


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
