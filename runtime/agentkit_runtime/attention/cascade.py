"""Shared reads as the levels of a cascade, for libraries that compute it so.

Level 0 holds what most lanes share, the last what each lane has for itself and its new tokens. In
every level each row belongs to exactly one request; one without keys has nothing to add there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.plan import AttentionPlan, Lane, lane_runs, new_positions
from agentkit_runtime.attention.sharing import Piece, find_sharing
from agentkit_runtime.kv.extent import Extent

MAX_LEVELS = 4
"""Each level reads and merges all rows once more: what is shared deeper is read by each lane."""


@dataclass(frozen=True, slots=True)
class Level:
    """Requests of one level."""

    rows: tuple[int, ...]
    """[n_requests + 1]: where each one's rows begin."""
    keys: tuple[tuple[Extent, ...], ...]
    """For each request the slots that its rows read, in order of position."""


@dataclass(frozen=True, slots=True)
class CascadePlan(AttentionPlan):
    """A plan by levels. It has no parts."""

    levels: tuple[Level, ...] = ()
    """The last is causal: a request's last keys are its own rows."""
    window_left: int = -1
    """How many keys before its own a row of the last level sees; -1 is all."""

    @property
    def n_parts(self) -> int:
        """See `AttentionPlan.n_parts`."""
        return len(self.levels)


def plan_cascade(
    lanes: Sequence[Lane], cost: AttentionCost, *, window: int | None = None
) -> CascadePlan:
    """Plan one step for `lanes`, which must be in `plan.lane_order`.

    A window that hides keys from a row is relative to that row, and a level above the last does not
    know where its rows stand: such a step shares nothing.
    """
    positions = tuple(at for lane in lanes for at in new_positions(lane))
    if window is not None and max(positions, default=0) >= window:
        keys = tuple(_in_reach(lane, window) for lane in lanes)
        return CascadePlan(
            positions, (), (), levels=(Level(_row_ends(lanes), keys),), window_left=window - 1
        )
    sharing = find_sharing(lane_runs(lanes), cost)
    paths: list[list[tuple[Piece, ...]]] = [[] for _ in lanes]
    for read in sorted(sharing.shared, key=lambda read: read.pieces[0].first):
        for index in range(read.lo, read.hi):
            paths[index].append(read.pieces)
    depth = min(max(map(len, paths), default=0), MAX_LEVELS - 1)
    levels = [_shared_level(lanes, paths, level) for level in range(depth)]
    own: list[tuple[Extent, ...]] = []
    for lane, path, private in zip(lanes, paths, sharing.private, strict=True):
        pieces = [piece for read in path[depth:] for piece in read] + list(private)
        new = lane.own if lane.n_new > 1 else ()  # a single new token is among its lane's pieces
        own.append((*(piece.extent for piece in pieces), *new))
    kept = [read for read in sharing.shared if read.pieces in paths[read.lo][:depth]]
    return CascadePlan(
        positions,
        (),
        (),
        shared_reads=len(kept),
        refused=sharing.refused + len(sharing.shared) - len(kept),
        saved_keys=sum(
            (read.hi - read.lo - 1) * sum(piece.extent.length for piece in read.pieces)
            for read in kept
        ),
        levels=(*levels, Level(_row_ends(lanes), tuple(own))),
    )


def _shared_level(
    lanes: Sequence[Lane], paths: Sequence[Sequence[tuple[Piece, ...]]], level: int
) -> Level:
    """Neighbours that read the same are one request; so are neighbours that read nothing."""
    rows = [0]
    keys: list[tuple[Extent, ...]] = []
    before: tuple[Piece, ...] | None = None
    for lane, path in zip(lanes, paths, strict=True):
        pieces = path[level] if level < len(path) else ()
        if pieces == before:
            rows[-1] += lane.n_new
            continue
        rows.append(rows[-1] + lane.n_new)
        keys.append(tuple(piece.extent for piece in pieces))
        before = pieces
    return Level(tuple(rows), tuple(keys))


def _row_ends(lanes: Sequence[Lane]) -> tuple[int, ...]:
    ends = [0]
    for lane in lanes:
        ends.append(ends[-1] + lane.n_new)
    return tuple(ends)


def _in_reach(lane: Lane, window: int) -> tuple[Extent, ...]:
    """All slots of a lane that its first new token, and with it the others, may see."""
    hidden = max(0, lane.position - window + 1)
    found: list[Extent] = []
    for extent in (*lane.past, *lane.own):
        skipped = min(hidden, extent.length)
        hidden -= skipped
        if skipped < extent.length:
            found.append(extent.tail(skipped))
    return tuple(found)
