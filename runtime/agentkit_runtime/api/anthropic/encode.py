"""`ChatEvent`s -> the events of a message stream, and these -> the whole message.

The message that is not streamed is a fold over the stream's events. Blocks follow one another: a
new one begins where the kind of what is generated changes, or with the next call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never, cast

from pydantic_core import from_json

from agentkit_runtime.api.anthropic.usage import delta_usage
from agentkit_runtime.api.anthropic.wire import (
    ContentBlock,
    Delta,
    Message,
    StopReason,
    StreamEvent,
    Usage,
)
from agentkit_runtime.api.failure import from_end
from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
)

UNSIGNED = "unsigned"
"""The signature of thinking: clients want one that is not empty. It is not looked at again."""


@dataclass(slots=True, kw_only=True)
class MessageEncoder:
    """Encodes the events of one answer, in order."""

    id: str
    model: str
    context_tokens: int
    """The most tokens of a prompt and its answer: an answer that is cut off there says so."""
    shows_thinking: bool = True
    """False: blocks of thinking are told without their text."""
    _n_blocks: int = field(default=0, init=False)
    _open: str | None = field(default=None, init=False)
    """Kind of the block that has not ended."""

    def start(self, usage: Usage) -> StreamEvent:
        """The first event."""
        message: Message = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return {"type": "message_start", "message": message}

    def encode(self, event: ChatEvent) -> list[StreamEvent]:
        """The events that `event` adds, but for its last one: see `end`."""
        match event:
            case ContentDelta():
                if not event.text:  # there are no empty text blocks
                    return []
                events = self._in_block("text", {"type": "text", "text": ""})
                return [*events, self._delta({"type": "text_delta", "text": event.text})]
            case ReasoningDelta():
                block: ContentBlock = {"type": "thinking", "thinking": "", "signature": ""}
                events = self._in_block("thinking", block)
                if self.shows_thinking:
                    events.append(self._delta({"type": "thinking_delta", "thinking": event.text}))
                return events
            case ToolCallStart():
                return [
                    *self._close(),
                    *self._in_block(
                        "tool_use",
                        {"type": "tool_use", "id": event.id, "name": event.name, "input": {}},
                    ),
                ]
            case ToolCallArguments():
                return [self._delta({"type": "input_json_delta", "partial_json": event.text})]
            case ChatFinished():
                return self._close()
            case _:
                assert_never(event)

    def end(self, finished: ChatFinished, usage: Usage) -> list[StreamEvent]:
        """The last events. Raises `ApiError` when the generation failed."""
        reason = stop_reason(finished, self.context_tokens)
        return [
            {
                "type": "message_delta",
                "delta": {
                    "stop_reason": reason,
                    "stop_sequence": finished.stop if reason == "stop_sequence" else None,
                },
                "usage": delta_usage(usage, thinking_tokens=finished.reasoning_tokens),
            },
            {"type": "message_stop"},
        ]

    def _in_block(self, kind: str, block: ContentBlock) -> list[StreamEvent]:
        if self._open == kind:
            return []
        closing = self._close()
        self._open = kind
        return [
            *closing,
            {"type": "content_block_start", "index": self._n_blocks, "content_block": block},
        ]

    def _delta(self, delta: Delta) -> StreamEvent:
        return {"type": "content_block_delta", "index": self._n_blocks, "delta": delta}

    def _close(self) -> list[StreamEvent]:
        if self._open is None:
            return []
        events: list[StreamEvent] = []
        if self._open == "thinking":
            events.append(self._delta({"type": "signature_delta", "signature": UNSIGNED}))
        events.append({"type": "content_block_stop", "index": self._n_blocks})
        self._open = None
        self._n_blocks += 1
        return events


def stop_reason(finished: ChatFinished, context_tokens: int) -> StopReason:
    """Anthropic's reason. Raises `ApiError` for the two ends that are failures."""
    match finished.reason:
        case "stop":
            return "end_turn" if finished.stop is None else "stop_sequence"
        case "length":
            n_tokens = finished.stats.prompt_tokens + finished.stats.completion_tokens
            filled = n_tokens >= context_tokens
            return "model_context_window_exceeded" if filled else "max_tokens"
        case "tool_calls":
            return "tool_use"
        case "abort" | "error":
            raise from_end(finished)


def folded(events: Iterable[StreamEvent], usage: Usage) -> Message:
    """The whole message of a complete stream."""
    message: Message | None = None
    inputs: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert message is not None, "a stream begins with message_start"
                message["content"].append(event["content_block"])
            case "content_block_delta":
                assert message is not None, "a stream begins with message_start"
                _add(message["content"][event["index"]], event["delta"], event["index"], inputs)
            case "message_delta":
                assert message is not None, "a stream begins with message_start"
                message["stop_reason"] = event["delta"]["stop_reason"]
                message["stop_sequence"] = event["delta"]["stop_sequence"]
                message["usage"] = {**usage, **event["usage"]}
            case _:
                pass
    assert message is not None, "a stream begins with message_start"
    for index, text in inputs.items():
        block = message["content"][index]
        assert block["type"] == "tool_use", "only calls have input"
        block["input"] = _input(text)
    return message


def _add(block: ContentBlock, delta: Delta, index: int, inputs: dict[int, str]) -> None:
    match delta["type"]:
        case "text_delta":
            assert block["type"] == "text", "deltas are of their block's kind"
            block["text"] += delta["text"]
        case "thinking_delta":
            assert block["type"] == "thinking", "deltas are of their block's kind"
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            assert block["type"] == "thinking", "deltas are of their block's kind"
            block["signature"] = delta["signature"]
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]


def _input(text: str) -> object:
    """A call's input; of one that was cut off, what is whole of it, as SDKs read streams."""
    return cast("object", from_json(text, allow_partial=True)) if text.strip() else {}
