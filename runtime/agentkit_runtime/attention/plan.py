"""Decide which rows of a batch read which extents of the KV pool.

A *lane* is one sequence in the batch. Its *past* is a list of extents (see `kv.extent`); lanes
that run on the same branch of the radix tree have the same leading extents. Sorted by their
extents, lanes that share an extent are neighbours, so each shared extent is read by one
contiguous range of rows: one matrix product for all of them, however deep the tree is (the multi-
level form of Hydragen, arXiv 2402.05099, and of cascade inference). The partial results are
merged by log-sum-exp afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentkit_runtime.kv.extent import Extent, coalesce


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
    return AttentionPlan(row, tuple(_plan_reads(cursors)), tuple(causal))


@dataclass(frozen=True, slots=True)
class _Cursor:
    """What a lane has still to read: its runs from `index` on, the first without `offset` slots."""

    row: int
    n_rows: int
    runs: tuple[Extent, ...]
    index: int = 0
    offset: int = 0

    @property
    def next(self) -> Extent | None:
        if self.index == len(self.runs):
            return None
        run = self.runs[self.index]
        return Extent(run.start + self.offset, run.length - self.offset)

    def skip(self, n: int) -> _Cursor:
        """Return the cursor behind the next `n` slots, which all lie in the next run."""
        run = self.runs[self.index]
        if self.offset + n == run.length:
            return _Cursor(self.row, self.n_rows, self.runs, self.index + 1)
        return _Cursor(self.row, self.n_rows, self.runs, self.index, self.offset + n)


def _plan_reads(cursors: list[_Cursor]) -> list[ReadPart]:
    """Walk the tree that the lanes' runs form, one shared run at a time."""
    reads: list[ReadPart] = []
    # Groups of neighbouring lanes that agree on every slot before position `first`. A stack and
    # no recursion: a scattered prefix has thousands of runs.
    groups: list[tuple[list[_Cursor], int]] = [(cursors, 0)]
    while groups:
        group, first = groups.pop()
        for same in _by_next_start(group):
            runs = [run for cursor in same if (run := cursor.next) is not None]
            n = min((run.length for run in runs), default=0)
            if n * (len(same) - 1) < SHARE_MIN_SAVED_TOKENS:
                for cursor in same:
                    _emit_rest(cursor, first, reads)
                continue
            head, last = same[0], same[-1]
            n_rows = last.row + last.n_rows - head.row
            reads.append(ReadPart(head.row, n_rows, Extent(runs[0].start, n), first))
            groups.append(([cursor.skip(n) for cursor in same], first + n))
    return reads


def _by_next_start(cursors: Sequence[_Cursor]) -> Iterator[list[_Cursor]]:
    """Split neighbours by the slot that they read next; who has nothing left stands alone."""
    lo = 0
    while lo < len(cursors):
        run = cursors[lo].next
        hi = lo + 1
        while hi < len(cursors) and run is not None:
            other = cursors[hi].next
            if other is None or other.start != run.start:
                break
            hi += 1
        yield list(cursors[lo:hi])
        lo = hi


def _emit_rest(cursor: _Cursor, first: int, reads: list[ReadPart]) -> None:
    while (extent := cursor.next) is not None:
        reads.append(ReadPart(cursor.row, cursor.n_rows, extent, first))
        first += extent.length
        cursor = cursor.skip(extent.length)


def _runs(lane: Lane) -> tuple[Extent, ...]:
    """What a lane reads without a causal mask, as maximal runs of consecutive slots.

    A single new token needs no mask: it also reads its own slot.
    """
    return tuple(coalesce(lane.past, lane.own if lane.n_new == 1 else ()))
