"""Batches of lanes for the tests of plans and backends."""

from __future__ import annotations

from hypothesis import strategies as st

from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.plan import Lane, lane_order
from agentkit_runtime.kv.extent import Extent

GREEDY = AttentionCost(
    call_s=1e-9, key_s=1.0, pair_s=1e-9, merge_s=1e-9, merge_row_s=1e-12, gather_s=1e-9
)
"""Reading is so dear that everything is shared; a piece is copied while it is that short."""
IN_PLACE = AttentionCost(gather_key_s=1.0)
"""Copying is so dear that nothing is gathered."""
COPYING = AttentionCost(gather_key_s=1e-12, call_s=1.0)
"""Calls are so dear that everything private is gathered, whatever the padding."""
ALONE = AttentionCost(merge_s=1e6, gather_key_s=1.0)
"""Merging is so dear that nothing is shared."""
COSTS = (AttentionCost(), GREEDY, IN_PLACE, COPYING, ALONE)


def lane(*past: tuple[int, int], n_new: int = 1, own: tuple[int, int] | None = None) -> Lane:
    extents = tuple(Extent(*run) for run in past)
    position = sum(run.length for run in extents)
    return Lane(
        past=extents, position=position, n_new=n_new, own=(Extent(*(own or (9000, n_new))),)
    )


def in_order(lanes: list[Lane]) -> list[Lane]:
    return [lanes[i] for i in lane_order(lanes)]


@st.composite
def batches(draw: st.DrawFn, *, longest: int = 200, most_new: int = 24) -> list[Lane]:
    """Lanes on the branches of a random tree of extents, as the radix tree would give them.

    Slots are small numbers with gaps between extents, so that a pool of `N_SLOTS` holds them.
    """
    end = 0

    def fresh(n: int) -> Extent:
        nonlocal end
        end += n + 1
        return Extent(end - n - 1, n)

    nodes: list[tuple[Extent, ...]] = [()]
    for size in draw(st.lists(st.integers(1, longest), min_size=1, max_size=8)):
        nodes.append((*draw(st.sampled_from(nodes)), fresh(size)))
    lanes = []
    for _ in range(draw(st.integers(1, 6))):
        path = draw(st.sampled_from(nodes))
        if path and draw(st.booleans()):  # a lease may hold only the front of a node
            path = (*path[:-1], Extent(path[-1].start, draw(st.integers(1, path[-1].length))))
        n_new = draw(st.one_of(st.just(1), st.integers(1, most_new)))
        position = sum(run.length for run in path)
        lanes.append(Lane(past=path, position=position, n_new=n_new, own=(fresh(n_new),)))
    return in_order(lanes)


def n_slots(longest: int, most_new: int) -> int:
    """Slots that hold any of `batches`."""
    return 8 * (longest + 1) + 6 * (most_new + 1)
