"""How long to wait for an answer: an idle limit, and a hard one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

_HARD_FACTOR = 10
"""A call whose server keeps reporting progress may take this many times its limit."""


class Patience:
    """The time left for one request. Each sign of life gives the full limit again, up to a cap.

    Args:
        limit_s: the limit; None waits for ever.
        clock: the time in seconds, as it counts for the server.
    """

    def __init__(self, limit_s: float | None, clock: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._idle_since_s = self._begun_s = clock()

    def sign_of_life(self) -> None:
        """Note that the server reported progress."""
        self._idle_since_s = self._clock()

    def left_s(self) -> float | None:
        """Return the seconds that are left: 0 or less at the end, None without a limit."""
        if self._limit_s is None:
            return None
        end_s = self._idle_since_s + self._limit_s
        cap_s = self._begun_s + self._limit_s * _HARD_FACTOR
        return min(end_s, cap_s) - self._clock()

    def noting(self, on_progress: ProgressFnT | None) -> ProgressFnT:
        """Return what takes each report of progress for a sign of life, and hands it on."""

        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.sign_of_life()
            if on_progress is not None:
                await on_progress(progress, total, message)

        return note
