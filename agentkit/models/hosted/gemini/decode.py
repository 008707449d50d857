"""What the API streams, as our events.

Usage. `promptTokenCount` has all input, what was read from a cache included; tokens of tools that
ran at the server (`toolUsePromptTokenCount`) are input beside it. Thoughts are output beside
`candidatesTokenCount`. The API's JSON leaves out zeros, so a count that is absent *beside* the
prompt's own count is 0; where that is absent too, nothing was reported and all is unknown. There
are no writes to be paid for.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentkit.errors import ModelError, RequestRefused
from agentkit.events import (
    FinishReason,
    ModelEnd,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
    VendorItemEvent,
)
from agentkit.models.hosted.gemini.errors import api_error
from agentkit.models.hosted.gemini.rawjson import raw_value
from agentkit.models.hosted.gemini.vendor import BORDER, SIGNATURE, own_id, signature_item
from agentkit.usage import Timing, Usage

_FINISHES: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
}
_FLAWED = frozenset(
    (
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "RECITATION",
        "OTHER",
        "FINISH_REASON_UNSPECIFIED",
    )
)
"""What went wrong by chance: asked again, the model may answer."""

_SIGNS = frozenset(("thought", SIGNATURE))


class Reader:
    """Reads one answer, event by event.

    Args:
        label: the model's, for items that must come back to it, and for errors.
        clock: seconds, monotonic.
    """

    def __init__(self, label: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.cache_note: str | None = None
        """What went wrong with the request's object, for the report."""
        self._label = label
        self._clock = clock
        self._started = clock()
        self._ttft_s: float | None = None
        self._usage: dict[str, Any] = {}
        self._calls = 0
        self._response_id = ""
        self._finish: tuple[str, str] | None = None
        self._after_signed_text = False

    def read(self, text: str) -> Iterator[ModelEvent]:
        """Yield what one event of the stream says.

        Raises:
            ModelError: it is an error, or no answer of this API.
        """
        try:
            event = json.loads(text)
        except ValueError as error:
            message = f"{self._label} sent what is no JSON: {text[:200]!r}"
            raise ModelError(message, retryable=True) from error
        try:
            if isinstance(event, list) and "error" in event[0]:
                event = event[0]  # it came outside of any event
            yield from self._event(event, text)
        except (AttributeError, LookupError, TypeError) as error:
            message = f"{self._label} sent {text[:200]!r}, which is no event of this API"
            raise ModelError(message) from error

    def _event(self, event: Any, text: str) -> Iterator[ModelEvent]:
        if "error" in event:
            raise api_error(self._label, _code(event), event)
        self._response_id = event.get("responseId") or self._response_id
        yield from self._read_usage(event)
        self._check_prompt(event)
        candidates = event.get("candidates") or [{}]
        for index, part in enumerate((candidates[0].get("content") or {}).get("parts") or ()):
            path = ("candidates", 0, "content", "parts", index)
            yield from self._part(part, lambda *more, at=path: raw_value(text, (*at, *more)))
        reason = candidates[0].get("finishReason")
        if reason:
            self._finish = (str(reason), str(candidates[0].get("finishMessage") or ""))

    def end(self) -> Iterator[ModelEvent]:
        """Yield usage and the end.

        Raises:
            RequestRefused: the answer was blocked.
            ModelError: it has a flaw, or the stream was cut off.
        """
        yield UsageEvent(
            usage=usage_of(self._usage, complete=True),
            timing=Timing(ttft_s=self._ttft_s, total_s=self._clock() - self._started),
            cache_note=self.cache_note,
        )
        if self._finish is None:
            raise ModelError(f"{self._label} ended its answer half-way", retryable=True)
        reason, message = self._finish
        if reason not in _FINISHES:
            problem = f"{self._label} ended its answer with {reason}. {message}".rstrip()
            if reason in _FLAWED:
                raise ModelError(problem, retryable=True)
            raise RequestRefused(problem)
        finish = _FINISHES[reason]
        yield ModelEnd("tool_calls" if finish == "stop" and self._calls else finish)

    def _part(
        self, part: Mapping[str, Any], raw: Callable[..., str | None]
    ) -> Iterator[ModelEvent]:
        if self._ttft_s is None:
            self._ttft_s = self._clock() - self._started
        signature = part.get(SIGNATURE)
        if "functionCall" in part:
            if signature:
                yield self._item(signature_item(signature))
            yield from self._call(part["functionCall"] or {}, raw("functionCall", "args"))
        elif "text" not in part and part.keys() - _SIGNS:
            yield self._item(raw() or "{}")
        elif part.get("thought"):
            yield ThinkingDelta(
                text=part.get("text") or "", signature=signature, source=self._label
            )
        elif part.get("text"):
            yield from self._text(part["text"], signature)
            return
        elif signature:
            # An empty text that was signed: a part by itself, it must come back as one.
            yield self._item(raw() or "{}")
        else:
            return
        self._after_signed_text = False

    def _text(self, text: str, signature: str | None) -> Iterator[ModelEvent]:
        if signature:
            yield self._item(signature_item(signature))
        elif self._after_signed_text:
            yield self._item(BORDER)
        self._after_signed_text = bool(signature)
        yield TextDelta(text)

    def _call(self, call: Mapping[str, Any], arguments: str | None) -> Iterator[ModelEvent]:
        index, name = self._calls, call.get("name")
        if not name:
            raise ModelError(f"{self._label} called a tool without a name", retryable=True)
        self._calls += 1
        self._response_id = self._response_id or uuid.uuid4().hex
        call_id = call.get("id") or own_id(self._response_id, index)
        yield ToolCallStarted(index=index, id=str(call_id), name=str(name))
        yield ToolCallArguments(index=index, text=arguments or "{}")

    def _item(self, data: str) -> VendorItemEvent:
        return VendorItemEvent(source=self._label, data=data)

    def _read_usage(self, event: Mapping[str, Any]) -> Iterator[ModelEvent]:
        usage = event.get("usageMetadata")
        if not isinstance(usage, Mapping):
            return
        is_first = not self._usage
        self._usage |= usage
        if is_first:
            yield UsageEvent(usage=usage_of(self._usage, complete=False))

    def _check_prompt(self, event: Mapping[str, Any]) -> None:
        feedback = event.get("promptFeedback") or {}
        reason = feedback.get("blockReason")
        if reason:
            said = feedback.get("blockReasonMessage") or ""
            raise RequestRefused(f"{self._label} blocked the prompt: {reason}. {said}".rstrip())


def usage_of(counts: Mapping[str, Any], *, complete: bool) -> Usage:
    """Return the usage of `usageMetadata`; see this module's docstring for what is absent.

    `complete`: the answer is over, so that what is absent is 0 and not yet to come.
    """
    prompt = _count(counts, "promptTokenCount")
    if prompt is None:
        return Usage()
    read = _count(counts, "cachedContentTokenCount")
    output = [_count(counts, name) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    is_known = any(count is not None for count in output) or "totalTokenCount" in counts
    return Usage(
        input_tokens=prompt + (_count(counts, "toolUsePromptTokenCount") or 0),
        cache_read_tokens=0 if read is None and complete else read,
        cache_write_tokens=0 if complete else None,
        cache_write_long_tokens=0 if complete else None,
        output_tokens=sum(count or 0 for count in output) if complete and is_known else None,
    )


def _count(counts: Mapping[str, Any], name: str) -> int | None:
    value = counts.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _code(event: Mapping[str, Any]) -> int:
    error = event["error"]
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) else 500
