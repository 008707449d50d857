"""The attention plan reads every key a row may see exactly once, and shares what lanes share."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.attention.plan import (
    AttentionPlan,
    CausalPart,
    Lane,
    ReadPart,
    build_plan,
    lane_order,
)
from agentkit_runtime.kv.extent import Extent


def lane(*past: tuple[int, int], n_new: int = 1, own: tuple[int, int] | None = None) -> Lane:
    extents = tuple(Extent(*run) for run in past)
    position = sum(run.length for run in extents)
    return Lane(
        past=extents, position=position, n_new=n_new, own=(Extent(*(own or (9000, n_new))),)
    )


def planned(lanes: list[Lane]) -> tuple[list[Lane], AttentionPlan]:
    ordered = [lanes[i] for i in lane_order(lanes)]
    return ordered, build_plan(ordered)


def test_a_prefix_that_lanes_share_is_read_once_for_all_of_them() -> None:
    lanes = [lane((0, 100), (200 + 10 * i, 5), own=(500 + i, 1)) for i in range(3)]
    _, plan = planned(lanes)
    assert ReadPart(0, 3, Extent(0, 100), 0) in plan.reads
    assert len(plan.reads) == 1 + 2 * 3


def test_lanes_that_part_inside_an_extent_share_what_lies_before() -> None:
    whole, half = lane((0, 160), own=(500, 1)), lane((0, 80), (300, 10), own=(501, 1))
    _, plan = planned([whole, half])
    assert ReadPart(0, 2, Extent(0, 80), 0) in plan.reads
    assert any(part.extent == Extent(80, 80) and part.n_rows == 1 for part in plan.reads)


def test_sharing_too_little_is_not_worth_a_merge() -> None:
    lanes = [lane((0, 10), (100 + 50 * i, 40), own=(500 + i, 1)) for i in range(2)]
    _, plan = planned(lanes)
    assert all(part.n_rows == 1 for part in plan.reads)


def test_a_chunk_attends_causally_to_itself_and_reads_only_its_past() -> None:
    _, plan = planned([lane((0, 64), n_new=16, own=(64, 16))])
    assert plan.causal == (CausalPart(0, 16),)
    assert plan.reads == (ReadPart(0, 16, Extent(0, 64), 0),)


def test_neighbouring_slots_are_read_in_one_piece() -> None:
    _, plan = planned([lane((0, 10), (10, 20), own=(30, 1))])
    assert plan.reads == (ReadPart(0, 1, Extent(0, 31), 0),)


def test_a_scattered_shared_prefix_is_planned_in_one_pass() -> None:
    """Regression: one recursion for each shared run ended at Python's recursion limit."""
    scattered = [(10 * i, 3) for i in range(3000)]
    lanes = [lane(*scattered, own=(10**6 + i, 1)) for i in range(32)]
    _, plan = planned(lanes)
    shared = [part for part in plan.reads if part.n_rows == 32]
    assert len(shared) == 3000
    assert sum(part.extent.length for part in shared) == 9000


@st.composite
def batches(draw: st.DrawFn) -> list[Lane]:
    """Lanes on the branches of a random tree of extents, as the radix tree would give them."""
    free = iter(range(0, 10**6, 2))

    def fresh(n: int) -> Extent:
        start = next(free) * 1000
        return Extent(start, n)

    sizes = st.integers(1, 200)
    nodes: list[tuple[Extent, ...]] = [()]
    for size in draw(st.lists(sizes, min_size=1, max_size=8)):
        parent = draw(st.sampled_from(nodes))
        nodes.append((*parent, fresh(size)))
    lanes = []
    for _ in range(draw(st.integers(1, 6))):
        path = draw(st.sampled_from(nodes))
        if path and draw(st.booleans()):  # a lease may hold only the front of a node
            path = (*path[:-1], Extent(path[-1].start, draw(st.integers(1, path[-1].length))))
        n_new = draw(st.integers(1, 5))
        position = sum(run.length for run in path)
        lanes.append(Lane(past=path, position=position, n_new=n_new, own=(fresh(n_new),)))
    return lanes


@given(batches())
def test_every_row_reads_each_of_its_slots_once_at_the_right_position(lanes: list[Lane]) -> None:
    ordered, plan = planned(lanes)
    row = 0
    for item in ordered:
        expected = {}
        position = 0
        for run in item.past + (item.own if item.n_new == 1 else ()):
            for slot in range(run.start, run.end):
                expected[slot] = position
                position += 1
        for r in range(row, row + item.n_new):
            seen = Counter[int]()
            for part in plan.reads:
                if part.row <= r < part.row + part.n_rows:
                    for i, slot in enumerate(range(part.extent.start, part.extent.end)):
                        seen[slot] += 1
                        assert expected[slot] == part.first + i
            assert seen == Counter(expected.keys())
        causal = [part for part in plan.causal if part.row == row]
        assert causal == ([CausalPart(row, item.n_new)] if item.n_new > 1 else [])
        row += item.n_new
    assert plan.n_rows == row
