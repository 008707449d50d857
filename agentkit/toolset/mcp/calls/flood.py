"""A bound on how often a server is listened to: progress and log lines cost us time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable


class Floodgate:
    """Lets some pass at once, and then so many a second."""

    def __init__(
        self, burst: int, per_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._per_s, self._clock = burst, per_s, clock
        self._left = float(burst)
        self._last_s = clock()
        self._n_held = 0

    def passes(self) -> bool:
        """Whether the next one may pass."""
        now_s = self._clock()
        self._left = min(self._burst, self._left + (now_s - self._last_s) * self._per_s)
        self._last_s = now_s
        if self._left < 1:
            self._n_held += 1
            return False
        self._left -= 1
        return True

    def n_held(self) -> int:
        """Return how many were held back since this was asked last."""
        held, self._n_held = self._n_held, 0
        return held
