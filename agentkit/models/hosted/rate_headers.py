"""What providers say of their rate limits in the headers of each response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol, TypeAlias, runtime_checkable

from agentkit.models.hosted.openai_common import duration_s
from agentkit.models.rates import Kind, Told

OnHeaders: TypeAlias = Callable[[Mapping[str, str]], None]


@runtime_checkable
class TellsHeaders(Protocol):
    """An adapter that shows the headers of its responses, also of refusals."""

    on_headers: OnHeaders | None
    """Is called with the headers of each response."""


def told(headers: Mapping[str, str], now: datetime) -> Iterator[Told]:
    """Yield what the headers say; what is not understood is left out.

    Anthropic's `anthropic-ratelimit-<what>-remaining` and `-reset`, a time; and the form that most
    others share: `x-ratelimit-remaining-<what>` and `x-ratelimit-reset-<what>`, a duration.
    """
    given = {name.lower(): value.strip() for name, value in headers.items() if "ratelimit" in name}
    if not given:
        return
    for what, kind in _KINDS.items():
        for left, reset in (
            (f"anthropic-ratelimit-{what}-remaining", f"anthropic-ratelimit-{what}-reset"),
            (f"x-ratelimit-remaining-{what}", f"x-ratelimit-reset-{what}"),
        ):
            remaining, reset_s = _number(given.get(left)), _seconds(given.get(reset), now)
            if remaining is not None and reset_s is not None:
                yield Told(kind=kind, remaining=remaining, reset_s=reset_s)


_KINDS: Mapping[str, Kind] = {
    "requests": "requests",
    "tokens": "tokens",
    "input-tokens": "input_tokens",
    "output-tokens": "output_tokens",
}


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None


def _seconds(text: str | None, now: datetime) -> float | None:
    """Return how far away a time is, or how long a duration lasts."""
    if not text:
        return None
    if (seconds := duration_s(text)) is not None:
        return seconds
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
