"""Decide which rows of a batch read which extents of the KV pool.

A *lane* is one sequence in the batch. Its *past* is a list of extents (see `kv.extent`); lanes
that run on the same branch of the radix tree have the same leading extents, and read them together
(`sharing`) where that is cheaper (`cost`). What a lane has for itself is read in place when it is
long; short pieces of neighbouring lanes are gathered and read in one call. The partial results are
merged by log-sum-exp afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentkit_runtime.attention.cost import DEFAULT_COST, AttentionCost
from agentkit_runtime.attention.sharing import LaneRuns, Piece, Sharing, find_sharing
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
    `first`; with a sliding window, to those in reach."""

    row: int
    n_rows: int
    extent: Extent
    first: int


@dataclass(frozen=True, slots=True)
class GatherPart:
    """Several lanes of `n_rows` rows each, from `row` on, each attend to pieces of their own."""

    row: int
    n_rows: int
    lanes: tuple[tuple[Piece, ...], ...]
    own: bool
    """The last `n_rows` keys of each lane are its own new tokens: row i does not see those behind
    the i-th. All other keys lie before every row."""


@dataclass(frozen=True, slots=True)
class CausalPart:
    """Rows [row, row + n_rows) attend causally among themselves (a chunk of new tokens of one
    lane)."""

    row: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What one step's attention computes; the same for every layer."""

    positions: tuple[int, ...]
    """Of each row in its sequence."""
    reads: tuple[ReadPart, ...]
    causal: tuple[CausalPart, ...]
    gathers: tuple[GatherPart, ...] = ()
    shared_reads: int = 0
    """Common stretches that are read once for several lanes,"""
    refused: int = 0
    """and those where that would cost more than it saves."""
    saved_keys: int = 0
    """Keys of one layer that are not read again because of sharing."""

    @property
    def n_rows(self) -> int:
        """New tokens of all lanes."""
        return len(self.positions)

    @property
    def n_parts(self) -> int:
        """Results that are computed and merged in each layer."""
        return len(self.reads) + len(self.gathers) + len(self.causal)


MAX_GATHERED_ROWS = 16
"""A chunk up to this size reads its own new tokens with its other short pieces, under a mask."""


def lane_order(lanes: Sequence[Lane]) -> list[int]:
    """Return lane indices in an order that puts lanes with common leading slots side by side."""
    return sorted(range(len(lanes)), key=lambda i: _runs(lanes[i]))


def lane_runs(lanes: Sequence[Lane]) -> list[LaneRuns]:
    """Return what each lane reads without a causal mask, and its rows: row i is the i-th new token.

    A single new token needs no mask: it also reads its own slot.
    """
    found: list[LaneRuns] = []
    row = 0
    for lane in lanes:
        found.append(LaneRuns(row, lane.n_new, _runs(lane)))
        row += lane.n_new
    return found


def build_plan(
    lanes: Sequence[Lane], cost: AttentionCost = DEFAULT_COST, *, window: int | None = None
) -> AttentionPlan:
    """Plan one step for `lanes`, which must be in `lane_order`.

    Args:
        lanes: who takes part.
        cost: decides what is shared, and what is read in place.
        window: each row sees this many positions up to its own; None is all. Pieces that no row of
            a part reaches are left out.
    """
    rows = lane_runs(lanes)
    sharing = find_sharing(rows, cost)
    planner = _Planner(lanes, rows, cost, window)
    for read in sharing.shared:
        planner.add_shared(read.lo, read.hi, read.pieces)
    for index, pieces in enumerate(sharing.private):
        planner.add_private(index, pieces)
    planner.flush()
    return AttentionPlan(
        positions=tuple(at for lane in lanes for at in new_positions(lane)),
        reads=tuple(planner.reads),
        causal=tuple(planner.causal),
        gathers=tuple(planner.gathers),
        shared_reads=len(sharing.shared),
        refused=sharing.refused,
        saved_keys=_saved_keys(sharing),
    )


class _Planner:
    """Turns pieces into parts."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        rows: Sequence[LaneRuns],
        cost: AttentionCost,
        window: int | None,
    ) -> None:
        self._lanes, self._rows, self._cost, self._window = lanes, rows, cost, window
        self.reads: list[ReadPart] = []
        self.causal: list[CausalPart] = []
        self.gathers: list[GatherPart] = []
        self._open: list[tuple[Piece, ...]] = []
        """Short pieces of neighbouring lanes that will be gathered together,"""
        self._open_at = 0
        """the first of which is this one."""

    def add_shared(self, lo: int, hi: int, pieces: tuple[Piece, ...]) -> None:
        row = self._rows[lo].row
        n_rows = self._rows[hi - 1].row + self._rows[hi - 1].n_rows - row
        lowest = min(lane.position for lane in self._lanes[lo:hi])
        short = self._read_long(row, n_rows, self._visible(pieces, lowest))
        if len(short) == 1:
            self.reads.append(ReadPart(row, n_rows, *short[0]))
        elif short:
            self.gathers.append(GatherPart(row, n_rows, (short,), own=False))

    def add_private(self, index: int, pieces: tuple[Piece, ...]) -> None:
        lane, row = self._lanes[index], self._rows[index].row
        short = self._read_long(row, lane.n_new, self._visible(pieces, lane.position))
        if lane.n_new > MAX_GATHERED_ROWS:
            self.causal.append(CausalPart(row, lane.n_new))
        elif lane.n_new > 1:
            short += tuple(self._visible(_placed(lane.own, lane.position), lane.position))
        if not short or not self._joins(index, short):
            self.flush()
            self._open_at = index
        if short:
            self._open.append(short)

    def flush(self) -> None:
        """Close the open gathered part. One piece of one row is read in place after all."""
        if not self._open:
            return
        first = self._rows[self._open_at]
        (pieces, *others) = self._open
        own = 1 < first.n_rows <= MAX_GATHERED_ROWS
        if not others and len(pieces) == 1 and not own:
            self.reads.append(ReadPart(first.row, first.n_rows, *pieces[0]))
        else:
            self.gathers.append(GatherPart(first.row, first.n_rows, tuple(self._open), own))
        self._open = []

    def _joins(self, index: int, short: tuple[Piece, ...]) -> bool:
        """True when the lane's pieces are cheaper in the open part than in one of their own."""
        if not self._open or self._rows[index].n_rows != self._rows[self._open_at].n_rows:
            return False
        sizes = [_n_keys(pieces) for pieces in (*self._open, short)]
        padded = max(sizes) * len(sizes) - sum(sizes)
        return self._cost.padding_pays(padded, self._rows[index].n_rows)

    def _read_long(self, row: int, n_rows: int, pieces: Iterator[Piece]) -> tuple[Piece, ...]:
        """Plan long pieces; returns the short ones."""
        short: list[Piece] = []
        for piece in pieces:
            if piece.extent.length > self._cost.longest_gathered:
                self.reads.append(ReadPart(row, n_rows, *piece))
            else:
                short.append(piece)
        return tuple(short)

    def _visible(self, pieces: Sequence[Piece], lowest: int) -> Iterator[Piece]:
        """Leave out what a row at position `lowest`, and with it every later one, cannot see."""
        begin = 0 if self._window is None else lowest - self._window + 1
        for extent, first in pieces:
            hidden = max(0, begin - first)
            if hidden < extent.length:
                yield Piece(extent.tail(hidden), first + hidden)


def _placed(extents: Sequence[Extent], position: int) -> list[Piece]:
    pieces: list[Piece] = []
    for extent in extents:
        pieces.append(Piece(extent, position))
        position += extent.length
    return pieces


def _n_keys(pieces: Sequence[Piece]) -> int:
    return sum(piece.extent.length for piece in pieces)


def _saved_keys(sharing: Sharing) -> int:
    return sum((read.hi - read.lo - 1) * _n_keys(read.pieces) for read in sharing.shared)


def new_positions(lane: Lane) -> range:
    """Positions of a lane's new tokens."""
    return range(lane.position, lane.position + lane.n_new)


def _runs(lane: Lane) -> tuple[Extent, ...]:
    return tuple(coalesce(lane.past, lane.own if lane.n_new == 1 else ()))
