from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.extent import Extent, total
from agentkit_runtime.kv.slots import SlotAllocator


def fragmented() -> SlotAllocator:
    """20 slots, free are 0-1, 5-9, 12-14."""
    allocator = SlotAllocator(20)
    allocator.alloc(20)
    allocator.free([Extent(0, 2), Extent(5, 5), Extent(12, 3)])
    return allocator


def test_a_run_comes_from_the_smallest_free_run_that_holds_it() -> None:
    assert fragmented().alloc(2) == [Extent(0, 2)]
    assert fragmented().alloc(3) == [Extent(12, 3)]
    assert fragmented().alloc(4) == [Extent(5, 4)]


def test_only_a_fragmented_pool_gives_several_extents_and_then_as_few_as_possible() -> None:
    assert fragmented().alloc(6) == [Extent(5, 5), Extent(0, 1)]
    assert fragmented().alloc(8) == [Extent(5, 5), Extent(12, 3)]
    assert fragmented().alloc(10) == [Extent(5, 5), Extent(12, 3), Extent(0, 2)]


def test_reserve_takes_only_what_is_free_and_contiguous() -> None:
    assert fragmented().alloc(2, reserve=1) == [Extent(12, 3)]
    assert fragmented().alloc(4, reserve=9) == [Extent(5, 5)]
    assert fragmented().alloc(8, reserve=2) == [Extent(5, 5), Extent(12, 3)]


def test_a_run_grows_in_place_as_far_as_the_slots_behind_it_are_free() -> None:
    allocator = fragmented()
    assert allocator.alloc_at_end_of(Extent(3, 2), 4) == Extent(5, 4)
    assert allocator.alloc_at_end_of(Extent(5, 4), 4) == Extent(9, 1)
    assert allocator.alloc_at_end_of(Extent(9, 1), 4).length == 0
    assert allocator.alloc_at_end_of(Extent(18, 2), 4).length == 0


def test_more_than_is_free_is_refused_and_takes_nothing() -> None:
    allocator = fragmented()
    with pytest.raises(OutOfSlots, match="11 slots wanted, 10 of 20 free"):
        allocator.alloc(11)
    assert allocator.free_slots == 10


@pytest.mark.parametrize(
    "extents",
    [
        [Extent(5, 1)],
        [Extent(4, 2)],
        [Extent(10, 3)],
        [Extent(0, 20)],
        [Extent(10, 1), Extent(10, 1)],
        [Extent(15, 3), Extent(17, 2)],
    ],
)
def test_a_double_free_is_refused_and_frees_nothing(extents: list[Extent]) -> None:
    allocator = fragmented()
    before = list(allocator.free_runs())
    with pytest.raises(ValueError, match="double free"):
        allocator.free([Extent(3, 1), *extents])
    assert list(allocator.free_runs()) == before


@pytest.mark.parametrize("extent", [Extent(-1, 1), Extent(19, 2), Extent(3, -1)])
def test_slots_outside_the_pool_cannot_be_freed(extent: Extent) -> None:
    with pytest.raises(ValueError, match="not inside the pool of 20 slots"):
        fragmented().free([extent])


@pytest.mark.parametrize("n_slots", [0, -4])
def test_an_empty_pool_is_refused(n_slots: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1, got {n_slots}"):
        SlotAllocator(n_slots)


def test_negative_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        SlotAllocator(4).alloc(-1)
    with pytest.raises(ValueError, match="-1"):
        SlotAllocator(4).alloc(1, reserve=-1)
    with pytest.raises(ValueError, match="-1"):
        SlotAllocator(4).alloc_at_end_of(Extent(0, 1), -1)


class AllocatorAgainstASet(RuleBasedStateMachine):
    """The free list against a plain set of free slot numbers."""

    @initialize(n_slots=st.integers(1, 40))
    def start(self, n_slots: int) -> None:
        self.allocator = SlotAllocator(n_slots)
        self.free = set(range(n_slots))
        self.held: list[Extent] = []

    def take(self, run: Extent) -> None:
        taken = set(range(run.start, run.end))
        assert taken <= self.free, "a slot was handed out twice"
        self.free -= taken
        self.held.append(run)

    @rule(n_slots=st.integers(0, 12), reserve=st.integers(0, 6))
    def alloc(self, n_slots: int, reserve: int) -> None:
        longest = max((run.length for run in self.allocator.free_runs()), default=0)
        if n_slots > len(self.free):
            with pytest.raises(OutOfSlots):
                self.allocator.alloc(n_slots, reserve=reserve)
            return
        taken = self.allocator.alloc(n_slots, reserve=reserve)
        assert n_slots <= total(taken) <= n_slots + (reserve if n_slots else 0)
        assert len(taken) == 1 or n_slots > longest or not n_slots
        for run in taken:
            self.take(run)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), n_slots=st.integers(0, 6))
    def grow(self, data: st.DataObject, n_slots: int) -> None:
        behind = data.draw(st.sampled_from(self.held))
        expected = 0
        while expected < n_slots and behind.end + expected in self.free:
            expected += 1
        run = self.allocator.alloc_at_end_of(behind, n_slots)
        assert run == Extent(behind.end, expected)
        if expected:
            self.take(run)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free_some(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.held), unique=True, min_size=1))
        self.allocator.free(chosen)
        for run in chosen:
            self.held.remove(run)
            self.free |= set(range(run.start, run.end))

    @invariant()
    def free_runs_are_the_free_slots_in_maximal_runs(self) -> None:
        runs = list(self.allocator.free_runs())
        assert {s for run in runs for s in range(run.start, run.end)} == self.free
        assert self.allocator.free_slots == len(self.free) == total(runs)
        assert all(a.end < b.start for a, b in itertools.pairwise(runs))


TestAllocatorAgainstASet = AllocatorAgainstASet.TestCase
TestAllocatorAgainstASet.settings = settings(
    max_examples=80, stateful_step_count=30, derandomize=True, database=None, deadline=None
)
