"""The API's events -> ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
from agentkit.models.hosted.openai_common import count, reported_error
from agentkit.usage import Timing, Usage

Event = Mapping[str, object]


@dataclass(slots=True)
class _Item:
    """An output item that still grows."""

    call: int | None = None
    """Number of the call, for calls."""
    text: str = ""
    """What came of its text or arguments."""


class Translator:
    """Turns one response's events into ours, one at a time.

    Args:
        label: names the model in events and errors.
        now_s: a monotonic clock.
    """

    def __init__(self, label: str, now_s: Callable[[], float]) -> None:
        self._label = label
        self._now_s = now_s
        self._started_s = now_s()
        self._ttft_s: float | None = None
        self._items: dict[object, _Item] = {}
        self._n_calls = 0
        self.response_id: str | None = None
        self.has_ended = False

    def push(self, event: Event) -> Iterator[ModelEvent]:
        """Translate the next event. Unknown kinds say nothing.

        Raises:
            RequestRefused: the response failed in a way that asking again does not change.
            ModelError: it failed otherwise.
        """
        kind = str(event.get("type", ""))
        if self._ttft_s is None and kind.endswith((".delta", "output_item.added")):
            self._ttft_s = self._now_s() - self._started_s
            # Also where a model begins with hidden thinking: who waits for the prefix can go on.
            yield UsageEvent(usage=Usage(), timing=Timing(ttft_s=self._ttft_s))
        match kind:
            case "response.created":
                self.response_id = _text(_sub(event, "response"), "id") or None
            case "response.output_item.added":
                yield from self._added(event)
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextDelta(self._grown(event, _text(event, "delta")))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ThinkingDelta(text=_text(event, "delta"), source=self._label)
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield ThinkingDelta(text="\n\n", source=self._label)
            case "response.function_call_arguments.delta":
                yield from self._arguments(event, _text(event, "delta"))
            case "response.output_item.done":
                yield from self._done(event)
            case "response.completed" | "response.incomplete" | "response.failed":
                yield from self._end(kind, _sub(event, "response"))
            case "error":
                code = _text(event, "code") or None
                raise reported_error(code, f"{self._label}: {_text(event, 'message')}")

    def _added(self, event: Event) -> Iterator[ModelEvent]:
        item, key = _sub(event, "item"), event.get("output_index")
        self._items[key] = known = _Item()
        match _text(item, "type"):
            case "function_call":
                known.call = self._n_calls
                self._n_calls += 1
                yield ToolCallStarted(
                    index=known.call, id=_text(item, "call_id"), name=_text(item, "name")
                )
                yield from self._arguments(event, _text(item, "arguments"))
            case "message" if _text(item, "phase"):
                # Replayed with the text that follows: models expect their own labels back.
                yield self._vendor_item({"phase": item["phase"]})

    def _done(self, event: Event) -> Iterator[ModelEvent]:
        """An item is complete. What its deltas did not bring is in it."""
        item, key = _sub(event, "item"), event.get("output_index")
        match _text(item, "type"):
            case "function_call":
                if key not in self._items:
                    yield from self._added(event)
                else:
                    yield from self._arguments(event, self._rest(key, _text(item, "arguments")))
            case "message":
                if key not in self._items:
                    yield from self._added(event)
                rest = self._rest(key, _message_text(item))
                if rest:
                    yield TextDelta(self._grown(event, rest))
            case _:
                yield self._vendor_item(item)

    def _arguments(self, event: Event, text: str) -> Iterator[ModelEvent]:
        known = self._items.get(event.get("output_index"))
        if known is None or known.call is None:
            raise ModelError(f"{self._label} sent arguments of a call that it never began")
        if text:
            yield ToolCallArguments(index=known.call, text=self._grown(event, text))

    def _grown(self, event: Event, text: str) -> str:
        self._items.setdefault(event.get("output_index"), _Item()).text += text
        return text

    def _rest(self, key: object, whole: str) -> str:
        known = self._items[key].text
        if not whole or known == whole:
            return ""
        if not whole.startswith(known):
            raise ModelError(
                f"{self._label} contradicts itself: it streamed {known[:80]!r} and ended with "
                f"{whole[:80]!r}",
                retryable=True,
            )
        return whole[len(known) :]

    def _end(self, kind: str, response: Event) -> Iterator[ModelEvent]:
        self.response_id = _text(response, "id") or self.response_id
        yield self._usage(response)
        if kind == "response.failed":
            error = _sub(response, "error")
            message = _text(error, "message") or "the response failed without a reason"
            raise reported_error(_text(error, "code") or None, f"{self._label}: {message}")
        reason = _text(_sub(response, "incomplete_details"), "reason")
        if reason == "content_filter":
            raise RequestRefused(f"{self._label}: the content filter stopped the answer")
        self.has_ended = True
        yield ModelEnd(self._finish(kind, reason))

    def _finish(self, kind: str, reason: str) -> FinishReason:
        if kind == "response.incomplete" and reason in ("", "max_output_tokens"):
            return "length"
        return "tool_calls" if self._n_calls else "stop"

    def _usage(self, response: Event) -> UsageEvent:
        diagnostics = _sub(response, "prompt_cache_diagnostics")
        return UsageEvent(
            usage=usage_of(_sub(response, "usage")),
            timing=Timing(ttft_s=self._ttft_s, total_s=self._now_s() - self._started_s),
            cache_note=cache_note(diagnostics) if diagnostics else None,
        )

    def _vendor_item(self, item: Event) -> VendorItemEvent:
        data = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
        return VendorItemEvent(source=self._label, data=data)


def usage_of(usage: Event) -> Usage:
    """Return the tokens of a response; what it does not say stays unknown."""
    details = _sub(usage, "input_tokens_details")
    return Usage(
        input_tokens=count(usage, "input_tokens"),
        cache_read_tokens=count(details, "cached_tokens"),
        cache_write_tokens=count(details, "cache_write_tokens"),
        cache_write_long_tokens=count(
            _sub(details, "cache_write_tokens_details"), "ttl_12h_tokens"
        ),
        output_tokens=count(usage, "output_tokens"),
    )


def cache_note(diagnostics: Event) -> str:
    """Return the vendor's own diagnosis in one line, e.g. `cache_miss: tools_changed, ...`."""
    parts = [_text(diagnostics, "reason")]
    for name, what in (
        ("cache_missed_tokens", "tokens missed"),
        ("comparison_reusable_tokens", "tokens were reusable"),
    ):
        n_tokens = count(diagnostics, name)
        parts += [] if n_tokens is None else [f"{n_tokens} {what}"]
    said = ", ".join(part for part in parts if part)
    kind = _text(diagnostics, "type") or "unavailable"
    return f"{kind}: {said}" if said else kind


def _message_text(item: Event) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(
        _text(part, "text") or _text(part, "refusal") for part in parts if isinstance(part, Mapping)
    )


def _sub(event: Event, name: str) -> Event:
    value = event.get(name)
    # Parsed JSON; to ask whether it is any mapping takes longer.
    return value if isinstance(value, dict) else {}


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
