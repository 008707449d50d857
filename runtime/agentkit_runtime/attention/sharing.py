"""Find what lanes have in common: the walk through the tree that their slot runs form.

Sorted by their runs, lanes that share leading slots are neighbours, so each shared stretch is read
by one contiguous range of rows, however deep the tree is (the multi-level form of Hydragen, arXiv
2402.05099, and of cascade inference).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.kv.extent import Extent


class Piece(NamedTuple):
    """Keys that lie side by side: `extent`, the first of which has position `first`."""

    extent: Extent
    first: int


class LaneRuns(NamedTuple):
    """What one lane reads, as maximal runs of consecutive slots from position 0."""

    row: int
    n_rows: int
    runs: tuple[Extent, ...]


class SharedRead(NamedTuple):
    """Lanes [lo, hi) read `pieces` together."""

    lo: int
    hi: int
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class Sharing:
    """Who reads what: every key of every lane is in one shared read or in `private`, once."""

    private: list[tuple[Piece, ...]]
    """For each lane."""
    shared: list[SharedRead] = field(default_factory=list)
    refused: int = 0
    """Common stretches that are not worth a read of their own; those below may share them still."""


class _Group(NamedTuple):
    """Neighbours [lo, hi) that agree on every slot before `first`.

    All stand at the same place of their runs: `offset` slots into run `run`. They agree on all
    slots before, and runs are maximal, so they also agree where runs begin.
    """

    lo: int
    hi: int
    run: int
    offset: int
    first: int
    pending: tuple[Piece, ...]
    """Common keys that were not worth a shared read so far."""


def find_sharing(lanes: Sequence[LaneRuns], cost: AttentionCost) -> Sharing:
    """Decide for sorted `lanes` what is read once for several of them."""
    sharing = Sharing([()] * len(lanes))
    # A stack and no recursion: a scattered prefix has thousands of runs.
    groups = [_Group(0, len(lanes), 0, 0, 0, ())] if lanes else []
    while groups:
        for same in _by_next_slot(lanes, groups.pop()):
            if same.hi - same.lo == 1:
                sharing.private[same.lo] = _joined(same.pending, _rest(lanes[same.lo].runs, same))
                continue
            pieces, index, offset = _common(lanes[same.lo].runs, lanes[same.hi - 1].runs, same)
            first = pieces[-1].first + pieces[-1].extent.length
            pending = _joined(same.pending, pieces)
            head, last = lanes[same.lo], lanes[same.hi - 1]
            saved = cost.saved_by_sharing(
                same.hi - same.lo,
                last.row + last.n_rows - head.row,
                [piece.extent.length for piece in pending],
            )
            if saved > 0:
                sharing.shared.append(SharedRead(same.lo, same.hi, pending))
                pending = ()
            else:
                sharing.refused += 1
            groups.append(_Group(same.lo, same.hi, index, offset, first, pending))
    return sharing


def _by_next_slot(lanes: Sequence[LaneRuns], group: _Group) -> Iterator[_Group]:
    """Split a group by the slot that is read next; who has nothing left stands alone."""
    lo = group.lo
    while lo < group.hi:
        index, offset, slot = _next(lanes[lo].runs, group)
        hi = lo + 1
        while slot is not None and hi < group.hi and _next(lanes[hi].runs, group)[2] == slot:
            hi += 1
        yield group._replace(lo=lo, hi=hi, run=index, offset=offset)
        lo = hi


def _next(runs: tuple[Extent, ...], group: _Group) -> tuple[int, int, int | None]:
    """Return where `runs` go on: index, offset, and the slot; None at their end."""
    index, offset = group.run, group.offset
    if index < len(runs) and offset == runs[index].length:
        index, offset = index + 1, 0
    return index, offset, runs[index].start + offset if index < len(runs) else None


def _common(
    a: tuple[Extent, ...], b: tuple[Extent, ...], at: _Group
) -> tuple[list[Piece], int, int]:
    """What two lanes, and with them all sorted between them, have in common from `at` on."""
    index, offset, first = at.run, at.offset, at.first
    pieces: list[Piece] = []
    shorter = min(len(a), len(b))
    while index < shorter and a[index].start == b[index].start:
        n = min(a[index].length, b[index].length) - offset
        pieces.append(Piece(Extent(a[index].start + offset, n), first))
        first += n
        if a[index].length != b[index].length:
            return pieces, index, offset + n
        index, offset = index + 1, 0
    return pieces, index, offset


def _joined(before: tuple[Piece, ...], pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The pieces one after the other; the two that meet are one again if their slots touch."""
    after = tuple(pieces)
    if before and after and before[-1].extent.end == after[0].extent.start:
        last = before[-1]
        joined = Extent(last.extent.start, last.extent.length + after[0].extent.length)
        return (*before[:-1], Piece(joined, last.first), *after[1:])
    return before + after


def _rest(runs: tuple[Extent, ...], at: _Group) -> Iterator[Piece]:
    offset, first = at.offset, at.first
    for run in runs[at.run :]:
        yield Piece(Extent(run.start + offset, run.length - offset), first)
        first += run.length - offset
        offset = 0
