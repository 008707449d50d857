"""The attention plan reads every key a row may see exactly once, and shares what lanes share."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.plan import (
    AttentionPlan,
    CausalPart,
    GatherPart,
    Lane,
    ReadPart,
    build_plan,
)
from agentkit_runtime.attention.sharing import Piece
from agentkit_runtime.kv.extent import Extent
from tests.runtime.attention.lanes import ALONE, COSTS, IN_PLACE, batches, in_order, lane


def test_a_prefix_that_lanes_share_is_read_once_for_all_of_them() -> None:
    """R35."""
    lanes = in_order([lane((0, 100), (200 + 10 * i, 5), own=(500 + i, 1)) for i in range(3)])
    plan = build_plan(lanes, IN_PLACE)
    assert ReadPart(0, 3, Extent(0, 100), 0) in plan.reads
    assert len(plan.reads) == 1 + 2 * 3
    assert (plan.shared_reads, plan.saved_keys) == (1, 200)


def test_short_pieces_of_several_lanes_are_gathered_into_one_part() -> None:
    lanes = in_order([lane((0, 100), (200 + 10 * i, 5), own=(500 + i, 1)) for i in range(3)])
    plan = build_plan(lanes)
    assert plan.reads == (ReadPart(0, 3, Extent(0, 100), 0),)
    tails = tuple(
        (Piece(Extent(200 + 10 * i, 5), 100), Piece(Extent(500 + i, 1), 105)) for i in range(3)
    )
    assert plan.gathers == (GatherPart(0, 1, tails, own=False),)


def test_a_long_private_piece_is_read_in_place() -> None:
    """No copy of a prefix's keys and values."""
    longest = AttentionCost().longest_gathered
    plan = build_plan(in_order([lane((0, longest + 1), (9001, 3), own=(500, 1))]))
    assert ReadPart(0, 1, Extent(0, longest + 1), 0) in plan.reads


def test_a_single_short_piece_of_one_lane_is_read_in_place() -> None:
    assert build_plan([lane((0, 10), (10, 20), own=(30, 1))]).reads == (
        ReadPart(0, 1, Extent(0, 31), 0),
    )


def test_very_unequal_tails_are_not_padded_to_each_other() -> None:
    cost = AttentionCost(gather_key_s=1e-9, most_gathered=30_000)
    sizes = (4, 6, 20_000)
    lanes = in_order([lane((30_000 * i, n), own=(100_000 + i, 1)) for i, n in enumerate(sizes)])
    plan = build_plan(lanes, cost)
    assert [len(part.lanes) for part in plan.gathers] == [2, 1]


def test_lanes_that_part_inside_an_extent_share_what_lies_before() -> None:
    whole, half = lane((0, 160), own=(500, 1)), lane((0, 120), (300, 10), own=(501, 1))
    plan = build_plan(in_order([whole, half]), AttentionCost(merge_s=1e-6, call_s=1e-6))
    assert ReadPart(0, 2, Extent(0, 120), 0) in plan.reads
    assert ReadPart(1, 1, Extent(120, 40), 120) in plan.reads


def test_sharing_too_little_is_not_worth_a_merge() -> None:
    """R35."""
    lanes = in_order([lane((0, 10), (100 + 50 * i, 40), own=(500 + i, 1)) for i in range(2)])
    plan = build_plan(lanes)
    assert all(part.n_rows == 1 for part in plan.reads)
    assert (plan.shared_reads, plan.refused, plan.saved_keys) == (0, 1, 0)


def test_what_is_not_worth_sharing_alone_is_shared_with_what_follows() -> None:
    """Five lanes share too little; two of them share more, and take the first part along."""
    pair = [lane((0, 10), (1000, 2000), (5000 + 10 * i, 3), own=(90 + i, 1)) for i in range(2)]
    others = [lane((0, 10), (7000 + 100 * i, 4), own=(95 + i, 1)) for i in range(2)]
    plan = build_plan(in_order([*pair, *others]))
    assert plan.shared_reads == 1
    assert plan.refused == 1
    assert plan.saved_keys == 2010


def test_a_prefix_in_many_extents_is_judged_as_a_whole() -> None:
    """Regression: each extent alone was too short to share, so none was."""
    scattered = [(10 * i, 8) for i in range(200)]
    lanes = [lane(*scattered, own=(10**6 + 2 * i, 1)) for i in range(2)]
    assert build_plan(in_order(lanes)).saved_keys == 1600


def test_a_chunk_attends_causally_to_itself_and_reads_only_its_past() -> None:
    plan = build_plan([lane((0, 64), n_new=20, own=(64, 20))])
    assert plan.causal == (CausalPart(0, 20),)
    assert plan.reads == (ReadPart(0, 20, Extent(0, 64), 0),)


def test_small_chunks_read_their_own_tokens_with_their_tails() -> None:
    lanes = [lane((0, 3), n_new=4, own=(3, 4)), lane((90, 5), n_new=4, own=(95, 4))]
    plan = build_plan(in_order(lanes))
    tails = (
        (Piece(Extent(0, 3), 0), Piece(Extent(3, 4), 3)),
        (Piece(Extent(90, 5), 0), Piece(Extent(95, 4), 5)),
    )
    assert plan.gathers == (GatherPart(0, 4, tails, own=True),)
    assert plan.causal == ()


def test_keys_behind_every_rows_window_are_not_read() -> None:
    lanes = in_order([lane((0, 5000), (6000, 40 * i), own=(9000 + i, 1)) for i in range(1, 3)])
    plan = build_plan(lanes, window=1000)
    shared = next(part for part in plan.reads if part.n_rows == 2)
    assert shared == ReadPart(0, 2, Extent(4041, 959), 4041)


def test_a_scattered_shared_prefix_is_planned_in_one_pass() -> None:
    """Regression: one recursion for each shared run ended at Python's recursion limit."""
    scattered = [(10 * i, 3) for i in range(3000)]
    lanes = [lane(*scattered, own=(10**6 + 2 * i, 1)) for i in range(32)]
    plan = build_plan(in_order(lanes), IN_PLACE)
    shared = [part for part in plan.reads if part.n_rows == 32]
    assert len(shared) == 3000
    assert sum(part.extent.length for part in shared) == 9000


@given(batches(), st.sampled_from(COSTS), st.one_of(st.none(), st.integers(1, 300)))
def test_every_row_reads_each_key_it_sees_once_at_the_right_position(
    lanes: list[Lane], cost: AttentionCost, window: int | None
) -> None:
    plan = build_plan(lanes, cost, window=window)
    row = 0
    for item in lanes:
        slots = [s for run in (*item.past, *item.own) for s in range(run.start, run.end)]
        for i in range(item.n_new):
            position = item.position + i
            begin = 0 if window is None else max(0, position - window + 1)
            expected = {at: slots[at] for at in range(begin, position + 1)}
            seen = _seen(plan, lanes, row + i)
            assert all(len(found) == 1 for found in seen.values())
            visible = {at: found[0] for at, found in seen.items() if begin <= at <= position}
            assert visible == expected
        row += item.n_new
    assert plan.n_rows == row


@given(batches())
def test_nothing_is_shared_where_merging_costs_more(lanes: list[Lane]) -> None:
    """R35."""
    plan = build_plan(lanes, ALONE)
    assert plan.shared_reads == 0
    ends = {sum(lane.n_new for lane in lanes[: i + 1]) for i in range(len(lanes))}
    for part in plan.reads:
        assert not ends & set(range(part.row + 1, part.row + part.n_rows))


def _seen(plan: AttentionPlan, lanes: list[Lane], row: int) -> dict[int, list[int]]:
    """Positions and slots that a row reads, also those that its mask will hide."""
    seen: dict[int, list[int]] = defaultdict(list)
    pieces: list[tuple[Extent, int]] = [
        (read.extent, read.first) for read in plan.reads if read.row <= row < read.row + read.n_rows
    ]
    for gather in plan.gathers:
        if gather.row <= row < gather.row + gather.n_rows * len(gather.lanes):
            pieces += gather.lanes[(row - gather.row) // gather.n_rows]
    for causal in plan.causal:
        if causal.row <= row < causal.row + causal.n_rows:
            pieces += _own(lanes, causal.row)
    for extent, first in pieces:
        for i in range(extent.length):
            seen[first + i].append(extent.start + i)
    return seen


def _own(lanes: list[Lane], row: int) -> list[tuple[Extent, int]]:
    for item in lanes:
        if row == 0:
            return [(extent, item.position) for extent in item.own]
        row -= item.n_new
    raise AssertionError("a causal part begins inside a lane")


@pytest.mark.parametrize("cost", COSTS)
def test_no_lanes_make_an_empty_plan(cost: AttentionCost) -> None:
    assert build_plan([], cost).n_rows == 0
