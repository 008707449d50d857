"""An event loop in which an hour of waiting takes no time, for tests of timeouts and hangs."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

_NOTHING_FOR_S = 10.0
_START = datetime(2026, 11, 27, 12, tzinfo=UTC)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Goes on in time whenever all that runs in it waits. Sockets within the process work."""

    def __init__(self) -> None:
        self.virtual_s = 0.0
        self.idle_threads: int | None = None
        """Threads that run and wait for nothing here; None: time is not moved yet."""
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self.virtual_s

    @property
    def n_sockets(self) -> int:
        """How many sockets the loop watches, its own among them."""
        return len(self._selector.get_map())  # type: ignore[attr-defined]


class LoopTime:
    """The loop's time, for whatever takes a `Time`."""

    def now(self) -> datetime:
        """Return the time."""
        return _START + timedelta(seconds=asyncio.get_running_loop().time())

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Do some work in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        idle = self._loop.idle_threads
        if idle is None or threading.active_count() > idle:
            ready = super().select(0.001 if timeout is None else min(timeout, 0.001))
            if idle is None and timeout is not None and not ready:
                self._loop.virtual_s += 0.001
            return ready
        if timeout is not None:
            self._loop.virtual_s += timeout
            return super().select(0)
        ready = super().select(_NOTHING_FOR_S)
        if not ready:
            raise RuntimeError("everything waits, and nothing will ever happen")
        return ready
