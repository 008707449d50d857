from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.kv.extent import (
    Extent,
    coalesce,
    differing,
    drop,
    split,
    split_last,
    take,
    total,
)

seeded = settings(derandomize=True, database=None, deadline=None)

extents = st.lists(
    st.builds(Extent, st.integers(0, 40), st.integers(0, 6)).filter(lambda e: e.length > 0),
    max_size=6,
)


def slots(runs: list[Extent]) -> list[int]:
    return [slot for run in runs for slot in range(run.start, run.end)]


@seeded
@given(extents, st.integers(0, 40))
def test_split_cuts_the_list_of_slots_at_any_position(runs: list[Extent], at: int) -> None:
    at = min(at, total(runs))
    head, tail = split(runs, at)
    assert slots(head) == slots(runs)[:at] == slots(take(runs, at))
    assert slots(tail) == slots(runs)[at:] == slots(drop(runs, at))
    assert all(run.length > 0 for run in head + tail)


@seeded
@given(extents, extents)
def test_coalesce_keeps_every_slot_in_order_and_leaves_no_touching_neighbours(
    left: list[Extent], right: list[Extent]
) -> None:
    merged = coalesce(left, [Extent(3, 0)], right)
    assert slots(merged) == slots(left) + slots(right)
    assert all(a.end != b.start for a, b in itertools.pairwise(merged))
    assert all(run.length > 0 for run in merged)


@seeded
@given(extents, extents)
def test_differing_finds_exactly_the_positions_with_another_slot(
    left: list[Extent], right: list[Extent]
) -> None:
    n_slots = min(total(left), total(right))
    mine, canonical = take(left, n_slots), take(right, n_slots)
    pairs = zip(slots(mine), slots(canonical), strict=True)
    assert slots(differing(mine, canonical)) == [own for own, other in pairs if own != other]


@pytest.mark.parametrize("n_slots", [-1, 6])
def test_taking_what_is_not_there_is_refused(n_slots: int) -> None:
    with pytest.raises(ValueError, match="cannot take"):
        take([Extent(0, 3), Extent(7, 2)], n_slots)


def test_differing_refuses_lists_of_unequal_length() -> None:
    with pytest.raises(ValueError, match="different numbers of positions"):
        differing([Extent(0, 3)], [Extent(0, 2)])


@pytest.mark.parametrize("n_slots", range(7))
def test_split_last_is_split_from_the_other_end(n_slots: int) -> None:
    runs = [Extent(10, 3), Extent(0, 1), Extent(20, 2)]
    assert split_last(runs, n_slots) == split(runs, 6 - n_slots)


@pytest.mark.parametrize("n_slots", [-1, 7])
def test_split_last_refuses_more_than_there_is(n_slots: int) -> None:
    with pytest.raises(ValueError, match=f"cannot take {n_slots} slots where 6 are"):
        split_last([Extent(10, 6)], n_slots)
