"""Token buckets: rates that forgive bursts."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Bucket:
    """Fills by `per_minute` in a minute, up to as much; may be drawn below 0. For any thread.

    What something costs is known only afterwards, so it is let in while anything is there and paid
    later: a debt is waited for, and no request is too large to ever come in.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        """Full. `clock` gives monotonic seconds."""
        self.per_minute = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._level = float(per_minute)
        self._then_s = clock()

    def level(self) -> float:
        """What is there; negative where more was taken."""
        with self._lock:
            return self._filled()

    def take(self, n: float) -> None:
        """Take `n`, whatever is there."""
        with self._lock:
            self._level = self._filled() - n

    def seconds_until(self, level: float) -> float:
        """How long it takes until so much is there, if nothing is taken."""
        return max(0.0, (level - self.level()) * 60.0 / self.per_minute)

    def resize(self, per_minute: int) -> None:
        """Fill by another rate from now on. What was used stays used; a debt stays a debt."""
        with self._lock:
            used = self.per_minute - self._filled()
            self._level, self.per_minute = per_minute - used, per_minute

    def _filled(self) -> float:
        now_s = self._clock()
        more = (now_s - self._then_s) * self.per_minute / 60.0
        self._level, self._then_s = min(float(self.per_minute), self._level + more), now_s
        return self._level
