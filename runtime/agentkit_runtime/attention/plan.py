"""Decide which rows of a batch read which extents of the KV pool.

A *lane* is one sequence in the batch. Its *past* is a list of extents (see `kv.extent`); lanes
that run on the same branch of the radix tree have the same leading extents. Sorted by their
extents, lanes that share an extent are neighbours, so each shared extent is read by one
contiguous range of rows: one matrix product for all of them, however deep the tree is (the multi-
level form of Hydragen, arXiv 2402.05099, and of cascade inference). The partial results are
merged by log-sum-exp afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentkit_runtime.kv.extent import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One sequence's share of a batch."""

    past: tuple[Extent, ...]
    """KV slots of positions [0, position), in order."""
    position: int
    """Position of the first new token."""
    n_new: int
    """New tokens in this batch, at least 1."""
    own: tuple[Extent, ...]
    """KV slots the new tokens are written to; their lengths sum to `n_new`."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """Rows [row, row + n_rows) attend to every key of `extent`, whose first key has position
    `first`."""

    row: int
    n_rows: int
    extent: Extent
    first: int


@dataclass(frozen=True, slots=True)
class CausalPart:
    """Rows [row, row + n_rows) attend causally among themselves (a chunk of new tokens of one
    lane)."""

    row: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What one step's attention computes; the same for every layer."""

    n_rows: int
    reads: tuple[ReadPart, ...]
    causal: tuple[CausalPart, ...]


SHARE_MIN_SAVED_TOKENS = 64
"""Reading an extent once for several lanes costs a merge: it must spare this many key reads."""


def lane_order(lanes: Sequence[Lane]) -> list[int]:
    """Return lane indices in an order that puts lanes with common leading slots side by side."""
    return sorted(range(len(lanes)), key=lambda i: _runs(lanes[i]))


def build_plan(lanes: Sequence[Lane]) -> AttentionPlan:
    """Plan one step for `lanes`, which must be in `lane_order`. Row i is the i-th new token."""
    cursors: list[_Cursor] = []
    causal: list[CausalPart] = []
    row = 0
    for lane in lanes:
        cursors.append(_Cursor(row, lane.n_new, _runs(lane)))
        if lane.n_new > 1:
            causal.append(CausalPart(row, lane.n_new))
        row += lane.n_new
    reads: list[ReadPart] = []
    _descend(cursors, 0, reads)
    return AttentionPlan(row, tuple(reads), tuple(causal))


@dataclass(frozen=True, slots=True)
class _Cursor:
    """What one lane has still to read: maximal runs of slots, in position order."""

    row: int
    n_rows: int
    runs: tuple[Extent, ...]

    def skip(self, n: int) -> _Cursor:
        head = self.runs[0]
        rest = self.runs[1:]
        if n < head.length:
            rest = (Extent(head.start + n, head.length - n), *rest)
        return _Cursor(self.row, self.n_rows, rest)


def _descend(cursors: Sequence[_Cursor], first: int, reads: list[ReadPart]) -> None:
    """Emit the reads of neighbouring lanes that agree on every slot before position `first`."""
    lo = 0
    while lo < len(cursors):
        hi = lo + 1
        while hi < len(cursors) and _same_next(cursors[lo], cursors[hi]):
            hi += 1
        group = cursors[lo:hi]
        lo = hi
        n = min((c.runs[0].length for c in group if c.runs), default=0)
        if n * (len(group) - 1) < SHARE_MIN_SAVED_TOKENS:
            for cursor in group:
                _emit_rest(cursor, first, reads)
            continue
        head = group[0]
        n_rows = group[-1].row + group[-1].n_rows - head.row
        reads.append(ReadPart(head.row, n_rows, Extent(head.runs[0].start, n), first))
        _descend([c.skip(n) for c in group], first + n, reads)


def _emit_rest(cursor: _Cursor, first: int, reads: list[ReadPart]) -> None:
    for extent in cursor.runs:
        reads.append(ReadPart(cursor.row, cursor.n_rows, extent, first))
        first += extent.length


def _same_next(a: _Cursor, b: _Cursor) -> bool:
    return bool(a.runs) and bool(b.runs) and a.runs[0].start == b.runs[0].start


def _runs(lane: Lane) -> tuple[Extent, ...]:
    """What a lane reads without a causal mask, as maximal runs of consecutive slots.

    A single new token needs no mask: it also reads its own slot.
    """
    runs: list[Extent] = []
    for extent in lane.past + lane.own if lane.n_new == 1 else lane.past:
        if runs and runs[-1].end == extent.start:
            runs[-1] = Extent(runs[-1].start, runs[-1].length + extent.length)
        elif extent.length:
            runs.append(extent)
    return tuple(runs)
