"""The time that keep-alives and lifetimes are reckoned in: the real one, or a test's own."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_STEPS = 100
"""Turns of the event loop after which whatever did not wait for time or a thread has come to rest.
A request through an SDK and a server in the same loop takes about twenty."""


class Time(Protocol):
    """Tells the time and waits."""

    def now(self) -> datetime:
        """Return the time, with a time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class RealTime:
    """The machine's own time; it never goes back, whatever is done to the clock on the wall."""

    def __init__(self) -> None:
        self._start = datetime.now(UTC)
        self._started_s = monotonic()

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self._start + timedelta(seconds=monotonic() - self._started_s)

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

    def jump(self, to: datetime) -> None:
        """Go on to a moment without waking anybody; a later `advance` or `drive` does."""
        if to < self._now:
            raise ValueError(f"time does not go back, from {self._now} to {to}")
        self._now = to

    async def advance(self, seconds: float) -> None:
        """Go on by this many seconds, stopping at each sleeper so that it acts at its own time."""
        if seconds < 0:
            raise ValueError(f"time does not go back, got {seconds!r} seconds")
        end = self._now + timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= end:
            await self._wake_next()
            await _settle()
        self._now = end
        await _settle()

    async def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work, going on in time whenever all that runs waits for it. Returns its result.

        So an hour of a program's sleeping takes as long as what it does in between.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await _settle()
                if task.done():
                    break
                if self._sleepers:
                    await self._wake_next()
                else:
                    # Something outside of this loop's reach, a thread for example, is waited for.
                    await asyncio.wait((task,), timeout=0.001)
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def _wake_next(self) -> None:
        due, _, waiter = heapq.heappop(self._sleepers)
        if not waiter.done():  # a sleeper that was cancelled does not move the time
            self._now = max(self._now, due)
            waiter.set_result(None)


async def _settle() -> None:
    """Let everything that can run go on until it waits."""
    for _ in range(_STEPS):
        await asyncio.sleep(0)
