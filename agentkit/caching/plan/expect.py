"""How often a prefix will be needed again: what is known of the run, as numbers for the planner."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.models.base import Reuse

_FRONT_READS = Decimal(2)
"""Others that send the same front while it lives. More than pays for any lifetime's premium but
the longest, and where only one comes the loss is small."""
_NEXT_TURN = Decimal("0.85")
"""Chance that a run with tools makes another request."""


@lru_cache(maxsize=4_096)
def shared_prefix(end: int, by: SharedBy, reads: Decimal) -> SharedPrefix:
    """Return a prefix that others will have; each request of a run names the same ones again."""
    return SharedPrefix(end=end, by=by, reads=reads)


def expected_reads(by: SharedBy, reuse: Reuse) -> Decimal:
    """Return how many requests are expected to read an entry that ends where `by` says."""
    if by is not SharedBy.RUN:
        return _FRONT_READS if reuse.front_again else Decimal(0)
    if not reuse.again or reuse.turns_left == 0:
        return Decimal(0)
    return _NEXT_TURN
