"""Prompts whose cost is only estimated yet, and requests that wait to know more."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

MOST_WAITING = 64
"""Requests of one tenant that may wait so: each holds its body in memory."""


class Estimates:
    """Those of one tenant. Used in the server's event loop.

    One waiter is woken at a time, and wakes the next one when it knows what becomes of it.
    """

    def __init__(self) -> None:
        self._n = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def may_change(self) -> bool:
        """Whether something is only estimated, and there is room to wait until it is known."""
        return self._n > 0 and len(self._waiting) < MOST_WAITING

    def began(self) -> None:
        """One more is estimated."""
        self._n += 1

    def known(self) -> None:
        """One is estimated no longer."""
        self._n -= 1
        self.wake()

    def wake(self) -> None:
        """Let the request that has waited longest look again."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def more_known(self) -> None:
        """Wait until more is known."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # its turn is the next one's
                self.wake()
            raise
        finally:
            with suppress(ValueError):
                self._waiting.remove(waiter)
