"""The time that keep-alives and lifetimes are reckoned in: the real one, or a test's own."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Time(Protocol):
    """Tells the time and waits."""

    def now(self) -> datetime:
        """Return the time, with a time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class RealTime:
    """The machine's own time."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class VirtualTime:
    """Stands still until it is told to go on. Who sleeps in it is woken in the right order.

    For tests and simulations: hours pass in no time, and always in the same way. One event loop.
    """

    def __init__(self, start: datetime = datetime(2026, 11, 27, 12, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start {start!r} has no time zone; pass e.g. tzinfo=UTC")
        self._now = start
        self._order = itertools.count()
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the time it stands at."""
        return self._now

    __call__ = now
    """So it is a `Clock` of the simulators, too."""

    async def sleep(self, seconds: float) -> None:
        """Wait until somebody advances the time that far."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._now + timedelta(seconds=max(0.0, seconds))
        heapq.heappush(self._sleepers, (due, next(self._order), waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Go on by this many seconds, stopping at each sleeper so that it acts at its own time."""
        if seconds < 0:
            raise ValueError(f"time does not go back, got {seconds!r} seconds")
        end = self._now + timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, waiter = heapq.heappop(self._sleepers)
            self._now = max(self._now, due)
            if not waiter.done():
                waiter.set_result(None)
            await _settle()
        self._now = end
        await _settle()


async def _settle() -> None:
    """Let everything that can run go on until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)
