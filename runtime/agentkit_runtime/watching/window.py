"""What changed in the last minute, for numbers that are ratios or rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agentkit_runtime.stats import CoreStats

WINDOW_S = 60.0
_STEP_S = 1.0
"""Snapshots are at least so far apart."""


class Window:
    """Remembers snapshots of the engine as it is shown them. Holds about a minute of them."""

    def __init__(self, first: CoreStats, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, CoreStats]] = deque([(clock(), first)])

    def look(self, now: CoreStats) -> Change:
        """What changed since about `WINDOW_S` ago, or since the last look before that."""
        now_s, seen = self._clock(), self._seen
        while len(seen) > 1 and seen[1][0] <= now_s - WINDOW_S:
            seen.popleft()
        then_s, then = seen[0]
        if now_s - seen[-1][0] >= _STEP_S:
            seen.append((now_s, now))
        return Change(now_s - then_s, then, now)


class Change:
    """Two snapshots and the seconds between them."""

    def __init__(self, seconds: float, then: CoreStats, now: CoreStats) -> None:
        self.seconds = seconds
        self._then = then
        self._now = now

    @property
    def hit_ratio(self) -> float:
        """Share of the prompt tokens of requests that ended which was read from the cache."""
        return _share(
            self._now.hit_tokens - self._then.hit_tokens,
            self._now.prompt_tokens - self._then.prompt_tokens,
        )

    @property
    def thrash_ratio(self) -> float:
        """Share of the prompt tokens that were computed which had been cached lately."""
        return _share(
            self._now.lost_tokens - self._then.lost_tokens,
            self._now.prefill_tokens - self._then.prefill_tokens,
        )

    @property
    def generated_per_s(self) -> float:
        """Tokens of answers for each second."""
        if self.seconds <= 0:
            return 0.0
        return (self._now.generated_tokens - self._then.generated_tokens) / self.seconds


def _share(part: int, whole: int) -> float:
    """Of what is counted at different moments a part can be ahead of the whole."""
    return min(1.0, part / whole) if whole > 0 else 0.0
