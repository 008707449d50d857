"""When a server that could not be reached is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_S = 1.0
_CAP_S = 60.0


class Backoff:
    """Doubles the pause after each failure in a row: 1, 2, 4, ... 60 seconds.

    Nobody waits here. Who asks in between is told how long it still takes, so that an agent can go
    on without the server.

    Args:
        clock: the current time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._n_failures = 0
        self._retry_at_s = clock()

    @property
    def left_s(self) -> float:
        """Seconds until the server may be tried again; 0 when it may be."""
        return max(0.0, self._retry_at_s - self._clock())

    def failed(self) -> float:
        """Note a failure. Returns the pause in seconds."""
        pause_s = min(_CAP_S, _FIRST_S * 2.0 ** min(self._n_failures, 16))
        self._n_failures += 1
        self._retry_at_s = self._clock() + pause_s
        return pause_s

    def reset(self) -> None:
        """Forget the failures: the server was reached, or is to be tried now."""
        self._n_failures = 0
        self._retry_at_s = self._clock()
