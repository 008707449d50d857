"""How close an engine is to its limits, as one number from 0 (idle) to 1 (nothing more fits).

It is the largest of three shares, because each alone is enough to make a new request wait:

    slots   KV slots that running requests and pins hold
    queue   requests that wait, of those that may
    wait    how long the request that waits longest has waited, or one that came now would wait
            for the prompts before it, of what is bearable

What is merely cached counts as free: it is evicted when somebody needs the room.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.checks import require_number, require_whole
from agentkit_runtime.stats import CoreStats


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureLimits:
    """What counts as full."""

    max_waiting: int = 256
    """Requests that may wait for the engine."""
    bearable_wait_s: float = 30.0
    """A request that waits so long, or would, means that the server is full."""

    def __post_init__(self) -> None:
        require_whole("max_waiting", self.max_waiting, least=1)
        require_number("bearable_wait_s", self.bearable_wait_s, least=0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The index and its three shares, each from 0 to 1."""

    slots: float
    queue: float
    wait: float

    @property
    def index(self) -> float:
        """The largest of the shares."""
        return max(self.slots, self.queue, self.wait)

    @property
    def cause(self) -> str:
        """Which share is the largest, in words."""
        named = {
            "KV slots are held": self.slots,
            "requests wait": self.queue,
            "requests wait for long": self.wait,
        }
        return max(named, key=lambda name: named[name])


def pressure_of(stats: CoreStats, limits: PressureLimits, *, n_coming: int = 0) -> Pressure:
    """The pressure after the engine's last step.

    Args:
        stats: the engine's numbers.
        limits: what counts as full.
        n_coming: requests that were let in and are not among the engine's yet.
    """
    wait_s = max(stats.scheduler.oldest_wait_s, _seconds_ahead(stats, n_coming))
    return Pressure(
        slots=min(1.0, stats.held_slots / max(1, stats.total_slots)),
        queue=min(1.0, (stats.waiting + n_coming) / limits.max_waiting),
        wait=min(1.0, wait_s / limits.bearable_wait_s),
    )


def _seconds_ahead(stats: CoreStats, n_coming: int) -> float:
    """Seconds of prefill that come before a new request's: what the queue's age tells too late.

    Those that are coming are taken to cost what requests have cost so far. 0 before the first step.
    """
    if not stats.prefill_tokens or not stats.prefill_s:
        return 0.0
    mean = stats.prefill_tokens / max(1, stats.warm_requests + stats.cold_requests)
    tokens = stats.scheduler.waiting_tokens + n_coming * mean
    return tokens * stats.prefill_s / stats.prefill_tokens
