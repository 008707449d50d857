"""Which machine a request goes to, when a prefix is asked for too often."""

from __future__ import annotations

from collections import deque

from agentkit.caching.recent import Recent


class Router:
    """Sends requests with one route to one machine, and those above a rate to further ones."""

    def __init__(self) -> None:
        self._recent: Recent[bytes, deque[float]] = Recent(10_000)

    def machine(self, route: bytes, *, now_s: float, per_minute: int) -> int:
        """Return the number of the machine for this request, counted from 0.

        `per_minute` requests of the last 60 seconds go to the first one, as many to the next.
        """
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, got {per_minute!r}")
        recent = self._recent.get(route, deque())
        self._recent[route] = recent
        while recent and recent[0] <= now_s - 60:
            recent.popleft()
        recent.append(now_s)
        return (len(recent) - 1) // per_minute

    def peek(self, route: bytes, *, now_s: float, per_minute: int) -> int:
        """Return what `machine` would, without counting a request."""
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, got {per_minute!r}")
        recent = self._recent.get(route, ())
        return sum(1 for at_s in recent if at_s > now_s - 60) // per_minute
