"""What a scheduler tells about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentkit_runtime.types import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStats:
    """A snapshot between two steps."""

    waiting: Mapping[Priority, int]
    """Sequences that wait, by class."""
    waiting_tokens: int = 0
    """Their tokens that have to be computed, as far as was known when they came, less what a
    neighbour is computing for them."""
    computed: Mapping[str, int] = field(default_factory=dict)
    """Tokens computed for each tenant since start, whatever became of its requests; one that was
    away for long (among more than `shares.MAX_IDLE`) begins again at 0."""
    running: int
    """Sequences that hold slots."""
    prefilling: int
    """Of these, those whose prompt is not computed yet."""
    following: int
    """Of those waiting, those that wait for a neighbour to compute what they share."""
    loading: int
    """Of those waiting, those whose prefix is on the way from host memory or disk."""
    oldest_wait_s: float
    """How long ago the one that has waited longest was submitted; 0 when nobody waits."""
    preemptions: int
    """How often a sequence had to leave its lane, since start."""
    overtakes: int
    """How often a sequence that found no room saw another start before it, since start."""
    late: int
    """Requests that ended by their deadline, since start."""
