"""Bounds how many requests of a tenant are worked on in threads at a time.

Rendering, tokenising and compiling run in threads that all tenants share, and a grammar can take
seconds; whoever waits for a turn holds its body in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentkit_runtime.api.failure import ApiError

AT_A_TIME = max(2, min(32, (os.cpu_count() or 1) + 4) // 2)
"""Requests of one tenant: half of asyncio's own threads."""

MAX_WAITING = 256
"""Requests of one tenant that may wait for a turn."""


@dataclass(slots=True)
class _Line:
    turns: asyncio.Semaphore
    n: int = 0
    """Requests that have a turn, or wait for one."""


class Turns:
    """The turns of one server's tenants; one event loop's."""

    def __init__(self, *, at_a_time: int = AT_A_TIME, max_waiting: int = MAX_WAITING) -> None:
        """For each tenant: `at_a_time` have a turn, `max_waiting` wait for one."""
        self._at_a_time = at_a_time
        self._max_waiting = max_waiting
        self._lines: dict[str, _Line] = {}
        """Of tenants that have requests here."""

    def __len__(self) -> int:
        return len(self._lines)

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """A turn, once there is one.

        Raises:
            ApiError: 429, too many wait for one already.
        """
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = _Line(asyncio.Semaphore(self._at_a_time))
        if line.n >= self._at_a_time + self._max_waiting:
            raise ApiError(
                f"{self._max_waiting} requests of this tenant wait to be prepared already; slow "
                "down",
                status=429,
                code="too_many_requests",
                retry_after_s=1,
            )
        line.n += 1
        try:
            async with line.turns:
                yield
        finally:
            line.n -= 1
            if not line.n:
                self._lines.pop(tenant, None)
