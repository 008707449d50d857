"""How often a prefix will be needed again: what is known of the run, as numbers for the planner."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.models.base import Reuse

_FRONT_READS = Decimal(2)
"""Others that send the same front while it lives. More than pays for any lifetime's premium but
the longest, and where only one comes the loss is small."""
_NEXT_TURN = Decimal("0.85")
"""Chance that a run with tools makes another request."""


@lru_cache(maxsize=64)
def prefixes_by(by: SharedBy, reads: Decimal) -> Mapping[int, SharedPrefix]:
    """Return prefixes that others will have, by their ends."""
    return _Prefixes(by, reads)


class _Prefixes(dict[int, SharedPrefix]):
    """Prefixes by their ends: each request of a run names those of the one before again."""

    def __init__(self, by: SharedBy, reads: Decimal) -> None:
        super().__init__()
        self._by, self._reads = by, reads

    def __missing__(self, end: int) -> SharedPrefix:
        if len(self) >= _PREFIXES_KEPT:
            self.clear()
        found = self[end] = SharedPrefix(end=end, by=self._by, reads=self._reads)
        return found


_PREFIXES_KEPT = 4_096


def expected_reads(by: SharedBy, reuse: Reuse) -> Decimal:
    """Return how many requests are expected to read an entry that ends where `by` says."""
    if by is not SharedBy.RUN:
        return _FRONT_READS if reuse.front_again else Decimal(0)
    if not reuse.again or reuse.turns_left == 0:
        return Decimal(0)
    return _NEXT_TURN
