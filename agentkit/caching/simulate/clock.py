"""The time that simulated caches live in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time, with a time zone."""


class ManualClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, start: datetime = datetime(2026, 11, 27, 12, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start {start!r} has no time zone; pass e.g. tzinfo=UTC")
        self._now = start

    def __call__(self) -> datetime:
        """Return the time it stands at."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Go on by this many seconds, at least 0."""
        if seconds < 0:
            raise ValueError(f"time does not go back, got {seconds!r} seconds")
        self._now += timedelta(seconds=seconds)


def system_clock() -> datetime:
    """Return the real time."""
    return datetime.now(UTC)
