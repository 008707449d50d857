"""Who has to leave when slots run out: the one that costs least to bring back."""

from __future__ import annotations

from collections.abc import Iterable

from agentkit_runtime.sched.sequence import Sequence


def recompute_cost(sequence: Sequence) -> int:
    """Tokens to be computed again, at worst, when a running sequence leaves its lane.

    What others have locked, too, stays in the tree. The rest is committed first and is lost only as
    far as it is evicted.
    """
    lease = sequence.lease
    assert lease is not None, "a running sequence holds a lease"
    return lease.exclusive + max(0, sequence.computed - lease.committed)


def freed_slots(sequence: Sequence) -> int:
    """Slots that become free or evictable when a running sequence leaves its lane."""
    lease = sequence.lease
    assert lease is not None, "a running sequence holds a lease"
    return lease.exclusive + lease.capacity - lease.committed


def by_cost(
    candidates: Iterable[Sequence], *, n_slots: int, max_preemptions: int
) -> list[Sequence]:
    """Order running sequences by how little it hurts when they leave.

    A lower class first; then one that has not left too often; then one that frees at least
    `n_slots` (many small ones would have to leave instead), the cheapest of these first and of the
    others the largest; then the youngest.
    """

    def key(sequence: Sequence) -> tuple[int, bool, bool, int, int]:
        freed = freed_slots(sequence)
        enough = freed >= n_slots
        return (
            sequence.priority,
            sequence.preemptions >= max_preemptions,
            not enough,
            recompute_cost(sequence) if enough else -freed,
            -sequence.arrival,
        )

    return sorted(candidates, key=key)
