"""Chunks of an answer -> model events."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping

from agentkit.caching.policy import UsageField
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import (
    FinishReason,
    ModelEnd,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    UsageEvent,
    VendorItemEvent,
)
from agentkit.models.hosted.openai_chat.calls import CallReader
from agentkit.models.hosted.openai_chat.details import DetailReader
from agentkit.models.hosted.openai_chat.profiles import Profile, Replay
from agentkit.models.hosted.openai_chat.usage import find_usage, read_usage
from agentkit.usage import Timing, Usage

_REASONING = ("reasoning_content", "reasoning")
"""What servers call the field; one that sends both sends the same text twice."""
_FINISHES: Mapping[str, FinishReason] = {"length": "length", "max_tokens": "length"}
_FAILED = frozenset(("abort", "error", "insufficient_system_resource", "network_error"))
"""Reasons of servers that gave up; asking again may help."""
_WITHHELD = frozenset(("content_filter", "sensitive"))


class ChunkReader:
    """Reads one answer. `finish` gives the last events.

    Args:
        label: names the model in events and errors.
        profile: how the server writes its chunks.
        where: where it says what it read.
        now_s: a monotonic clock.
    """

    def __init__(
        self, label: str, profile: Profile, where: UsageField, now_s: Callable[[], float]
    ) -> None:
        self._label = label
        self._profile = profile
        self._where = where
        self._now_s = now_s
        self._begun_s = now_s()
        self._ttft_s: float | None = None
        self._calls = CallReader(label)
        self._details = DetailReader()
        self._reason: str | None = None
        self._answer_id = ""
        self.usage = Usage()
        """What the server has said so far."""
        self.host: str | None = None
        """Which host served it, where a gateway says so."""

    def push(self, chunk: Mapping[str, object]) -> Iterator[ModelEvent]:
        """Read the next chunk.

        A chunk may have no choices and only the usage: with `include_usage` it is the last one.
        """
        if not self._answer_id:
            given = chunk.get("id")
            self._answer_id = given if isinstance(given, str) and given else uuid.uuid4().hex
        host = chunk.get(self._profile.served_by) if self._profile.served_by else None
        self.host = host if isinstance(host, str) and host else self.host
        for choice in _mappings(chunk.get("choices")):
            for event in self._choice(choice):
                self._ttft_s = self._elapsed() if self._ttft_s is None else self._ttft_s
                yield event
        found = find_usage(chunk, self._profile.usage_at)
        if found is not None:
            self.usage = self.usage.merge(read_usage(found, self._where))
            yield UsageEvent(usage=self.usage, timing=Timing(ttft_s=self._ttft_s))

    def finish(self, note: str | None = None) -> Iterator[ModelEvent]:
        """Return the last events, `ModelEnd` at their end.

        Raises:
            RequestRefused: the server withheld its answer.
            ModelError: the stream was cut off, or the server gave up.
        """
        for item in self._details.items():
            yield VendorItemEvent(source=self._label, data=item)
        timing = Timing(ttft_s=self._ttft_s, total_s=self._elapsed())
        yield UsageEvent(usage=self.usage, timing=timing, cache_note=note)
        if self._reason is None:
            raise ModelError(f"{self._label}: the stream was cut off", retryable=True)
        if self._reason in _FAILED:
            raise ModelError(f"{self._label} gave up: {self._reason}", retryable=True)
        if self._reason in _WITHHELD:
            raise RequestRefused(f"{self._label} withheld its answer: {self._reason}")
        self._calls.finish()
        by_itself: FinishReason = "tool_calls" if self._calls.any else "stop"
        yield ModelEnd(_FINISHES.get(self._reason, by_itself))

    def _choice(self, choice: Mapping[str, object]) -> Iterator[ModelEvent]:
        reason = choice.get("finish_reason")
        self._reason = reason if isinstance(reason, str) and reason else self._reason
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return
        thought = next((delta[name] for name in _REASONING if _is_text(delta.get(name))), None)
        if isinstance(thought, str):
            yield ThinkingDelta(text=thought, source=self._label)
        if self._profile.replay is Replay.DETAILS:
            self._details.push(delta.get("reasoning_details"))
        yield from self._content(delta.get("content"))
        yield from self._content(delta.get("refusal"))
        yield from self._calls.push(delta.get("tool_calls"), self._answer_id)

    def _content(self, content: object) -> Iterator[ModelEvent]:
        """Text, or a list of parts as Mistral's reasoning models send it."""
        if isinstance(content, str):
            if content:
                yield TextDelta(content)
            return
        for part in _mappings(content):
            if part.get("type") == "thinking":
                for inner in _mappings(part.get("thinking")):
                    if _is_text(inner.get("text")):
                        yield ThinkingDelta(text=str(inner["text"]), source=self._label)
            elif _is_text(part.get("text")):
                yield TextDelta(str(part["text"]))

    def _elapsed(self) -> float:
        return self._now_s() - self._begun_s


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
