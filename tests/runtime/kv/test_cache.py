from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.extent import Extent, total
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree

Slots = Callable[[Lease], list[int]]
Run = Callable[[KvCache, Sequence[int]], Lease]

PROMPT = list(range(100, 116))


# -- the faults that other engines had


def test_two_equal_prompts_in_one_batch_end_on_the_same_slots(cache: KvCache, slots: Slots) -> None:
    """R1. Fault: the second sequence kept pages freed as duplicates, and a third wrote to them."""
    tokens = pack(PROMPT)
    first = cache.acquire(b"n", tokens, max_match=15)
    second = cache.acquire(b"n", tokens, max_match=15)
    for lease in (first, second):
        cache.grow(lease, 16)
    assert not set(slots(first)) & set(slots(second))
    cache.commit(first, tokens)
    cache.commit(second, tokens)
    assert slots(first) == slots(second)
    third = cache.acquire(b"n", pack([7] * 16))
    cache.grow(third, 16)
    assert not set(slots(first)) & set(slots(third))
    cache.check_integrity([first, second, third])


def test_a_duplicate_in_the_middle_of_a_chunk_is_replaced_slot_by_slot(
    cache: KvCache, slots: Slots, run: Run
) -> None:
    late = cache.acquire(b"n", pack(PROMPT))
    cache.grow(late, 10)
    before = slots(late)
    early = run(cache, PROMPT[:6])
    cache.commit(late, pack(PROMPT[:8]))
    assert slots(late) == slots(early) + before[6:]
    assert cache.available == 32 - 6 - 2 - 2
    cache.check_integrity([early, late])


def test_a_cached_sequence_survives_eviction_while_it_runs(
    cache: KvCache, run: Run, slots: Slots
) -> None:
    """R2. Fault: lock walk skipped the matched node, so a running sequence could be evicted."""
    cache.release(run(cache, PROMPT))
    reader = cache.acquire(b"n", pack(PROMPT))
    held = slots(reader)
    assert cache.evict(32) == 0
    other = cache.acquire(b"n", b"")
    cache.grow(other, 16)
    assert not set(held) & set(slots(other))
    with pytest.raises(OutOfSlots):
        cache.grow(other, 17)
    cache.release(reader)
    cache.grow(other, 32)
    cache.check_integrity([other])


def test_evictable_counts_a_shared_page_once(cache: KvCache, run: Run) -> None:
    """R5. Fault: pages shared by two sequences counted twice; the idle check killed the server."""
    one, two = run(cache, [*PROMPT, 1]), run(cache, [*PROMPT, 2])
    assert cache.available == 32 - 18
    cache.release(one)
    assert cache.available == 32 - 17
    cache.release(two)
    assert cache.available == 32
    cache.check_integrity([])


def test_a_thousand_requests_cancelled_before_their_first_step_leak_nothing(
    cache: KvCache, run: Run
) -> None:
    """R7. Fault: an abort between match, which allocated, and schedule leaked."""
    cache.release(run(cache, PROMPT))
    for _ in range(1_000):
        lease = cache.acquire(b"n", pack(PROMPT), max_match=15)
        cache.grow(lease, 20, reserve=4)
        cache.release(lease)
        assert cache.available == 32
    cache.check_integrity([])
    assert (cache.free_slots, cache.evictable_slots) == (16, 16)
    assert cache.clear() == 16
    assert (cache.free_slots, cache.evictable_slots) == (32, 0)


def test_an_abort_between_chunks_keeps_only_the_committed_chunks(
    cache: KvCache, slots: Slots
) -> None:
    """R11. Fault: chunked prefill inserted pages that an abort freed, and poisoned the prefix."""
    lease = cache.acquire(b"n", pack(PROMPT), max_match=15)
    cache.grow(lease, 4)
    cache.commit(lease, pack(PROMPT[:4]))
    cache.grow(lease, 8)
    half_computed = slots(lease)[4:]
    cache.release(lease)
    assert cache.peek(b"n", pack(PROMPT)) == 4
    again = cache.acquire(b"n", pack(PROMPT), max_match=15)
    assert again.cached == 4
    assert not set(slots(again)) & set(half_computed)
    cache.check_integrity([again])


@pytest.mark.parametrize("length", [1, 2, 8, 15, 16])
def test_a_fully_cached_prompt_still_computes_its_last_token(
    cache: KvCache, run: Run, length: int, slots: Slots
) -> None:
    """R16. Fault: whole prompt cached gave a query of length zero, or a broken chain."""
    cache.release(run(cache, PROMPT[:length]))
    lease = run(cache, PROMPT[:length])
    assert lease.cached == length - 1
    assert lease.committed == length
    assert cache.available == 32 - length
    assert len(set(slots(lease))) == length
    cache.check_integrity([lease])


def test_a_hit_that_was_peeked_and_then_evicted_is_matched_again(cache: KvCache, run: Run) -> None:
    """R17. Fault: hit length remembered from an earlier scheduling attempt, after an eviction."""
    cache.release(run(cache, PROMPT))
    assert cache.peek(b"n", pack(PROMPT)) == 16
    cache.evict(10)
    lease = cache.acquire(b"n", pack(PROMPT))
    assert lease.cached == 6
    cache.evict(32)
    assert cache.peek(b"n", pack(PROMPT)) == 6, "what acquire found is locked"
    cache.check_integrity([lease])


def test_a_handle_can_be_released_after_any_number_of_splits(cache: KvCache, run: Run) -> None:
    deep = run(cache, PROMPT)
    for length in range(15, 0, -1):
        cache.release(cache.acquire(b"n", pack([*PROMPT[:length], 9])))
        cache.check_integrity([deep])
    cache.release(deep)
    cache.check_integrity([])
    assert cache.available == 32


def test_tenants_share_no_slot_and_see_no_hit_of_each_other(cache: KvCache, slots: Slots) -> None:
    """R22."""
    leases = []
    for namespace in (b"one", b"two"):
        lease = cache.acquire(namespace, pack(PROMPT))
        assert lease.cached == cache.peek(namespace, pack(PROMPT)) == 0
        cache.grow(lease, 16)
        cache.commit(lease, pack(PROMPT))
        leases.append(lease)
    assert not set(slots(leases[0])) & set(slots(leases[1]))
    cache.check_integrity(leases)


@pytest.mark.parametrize("scattered", [False, True])
def test_what_was_generated_leaves_before_the_prompt(
    cache: KvCache, run: Run, scattered: bool
) -> None:
    lease = run(cache, PROMPT)
    if scattered:
        cache.grow(cache.acquire(b"n", b""), 1)  # takes the slot behind the prompt
    for end in range(17, 21):
        cache.grow(lease, end)
        cache.commit(lease, pack([*PROMPT, *range(end - 16)]))
    cache.release(lease)
    cache.evict(4)
    assert cache.peek(b"n", pack([*PROMPT, 0])) == 16


# -- growing


def test_a_sequence_that_grows_alone_stays_in_one_extent(cache: KvCache) -> None:
    lease = cache.acquire(b"n", b"")
    for length in range(1, 33):
        cache.grow(lease, length)
        cache.commit(lease, pack(range(length)))
        assert lease.extents == [Extent(0, length)]
    assert len(lease.node.path()) == 1
    cache.check_integrity([lease])


def test_reserve_keeps_two_sequences_that_take_turns_in_one_extent_each(cache: KvCache) -> None:
    one, two = cache.acquire(b"n", b""), cache.acquire(b"n", b"")
    for length in range(1, 9):
        cache.grow(one, length, reserve=7)
        cache.grow(two, length, reserve=7)
    assert len(one.extents) == len(two.extents) == 1
    cache.check_integrity([one, two])


def test_reserve_never_evicts(cache: KvCache, run: Run) -> None:
    cache.release(run(cache, PROMPT))
    lease = cache.acquire(b"n", b"")
    cache.grow(lease, 10, reserve=22)
    assert lease.capacity == 16
    assert cache.peek(b"n", pack(PROMPT)) == 16


def test_a_grown_lease_keeps_the_slots_it_had(cache: KvCache, run: Run, slots: Slots) -> None:
    """R14. Fault: a prefix hit shifted the slice of new slots to those of the prefix."""
    cache.release(run(cache, PROMPT))
    lease = cache.acquire(b"n", pack(PROMPT), max_match=8)
    before = slots(lease)
    cache.grow(lease, 12)
    assert slots(lease)[:8] == before
    assert total(lease.extents_for(8, 4)) == 4
    new = [s for run in lease.extents_for(8, 4) for s in range(run.start, run.end)]
    assert slots(lease)[8:] == new
    assert not set(new) & set(before)


def test_out_of_slots_leaves_lease_and_cache_as_they_were(cache: KvCache, run: Run) -> None:
    cache.release(run(cache, PROMPT))
    running = run(cache, [1, 2, 3, 4])
    before = list(running.extents)
    with pytest.raises(OutOfSlots, match="29 slots wanted, but of 32 only 12 are free and 16 evic"):
        cache.grow(running, 33)
    assert (running.extents, running.capacity) == (before, 4)
    assert cache.peek(b"n", pack(PROMPT)) == 16, "nothing was evicted in vain"
    cache.grow(running, 32)
    cache.check_integrity([running])


def test_a_full_pool_is_evicted_in_steps_so_that_sequences_stay_in_long_runs() -> None:
    cache = KvCache(SlotAllocator(32), RadixTree(), eviction_step=8)
    filler = cache.acquire(b"n", b"")
    cache.grow(filler, 32)
    cache.commit(filler, pack(range(32)))
    cache.release(filler)
    lease = cache.acquire(b"n", b"")
    for length in range(1, 9):
        cache.grow(lease, length)
    assert lease.extents == [Extent(24, 8)]
    assert cache.peek(b"n", pack(range(32))) == 24


@pytest.mark.parametrize(("n_slots", "step"), [(8, 1), (640, 10), (1_000_000, 256)])
def test_the_eviction_step_follows_the_size_of_the_pool(n_slots: int, step: int) -> None:
    cache = KvCache(SlotAllocator(n_slots), RadixTree())
    filler = cache.acquire(b"n", b"")
    cache.grow(filler, n_slots)
    cache.commit(filler, pack(range(n_slots)))
    cache.release(filler)
    cache.grow(cache.acquire(b"n", b""), 1)
    assert cache.peek(b"n", pack(range(n_slots))) == n_slots - step


def test_shrink_gives_back_what_was_reserved_but_never_committed_tokens(
    cache: KvCache, run: Run
) -> None:
    lease = run(cache, [1, 2, 3])
    cache.grow(lease, 4, reserve=20)
    assert (lease.capacity, cache.available) == (24, 8)
    cache.shrink(lease, 5)
    assert (lease.capacity, cache.available) == (5, 27)
    cache.shrink(lease, 0)
    assert (lease.capacity, lease.committed) == (3, 3)
    cache.shrink(lease, 100)
    assert lease.capacity == 3
    cache.check_integrity([lease])


# -- misuse


def test_a_commit_that_contradicts_an_earlier_one_is_refused(cache: KvCache, run: Run) -> None:
    lease = run(cache, [1, 2, 3])
    cache.grow(lease, 4)
    for tokens in ([1, 2, 9, 4], [1, 2]):
        with pytest.raises(ValueError, match="does not start with the 3 committed before"):
            cache.commit(lease, pack(tokens))
    cache.check_integrity([lease])
    assert cache.peek(b"n", pack([1, 2, 9, 4])) == 2


def test_a_commit_beyond_the_capacity_is_refused(cache: KvCache) -> None:
    lease = cache.acquire(b"n", b"")
    cache.grow(lease, 2)
    with pytest.raises(ValueError, match="commit of 3 tokens, but the lease has slots for 2"):
        cache.commit(lease, pack([1, 2, 3]))


def test_committing_the_same_again_changes_nothing(cache: KvCache, run: Run) -> None:
    lease = run(cache, [1, 2, 3])
    before = lease.extents
    cache.commit(lease, pack([1, 2, 3]))
    assert lease.extents == before
    cache.check_integrity([lease])


def test_releasing_twice_is_releasing_once(cache: KvCache, run: Run) -> None:
    keeper, lease = run(cache, PROMPT), run(cache, PROMPT)
    cache.grow(lease, 18)
    cache.release(lease)
    cache.release(lease)
    assert cache.available == 16
    cache.check_integrity([keeper, lease])


def test_a_released_lease_cannot_be_used(cache: KvCache, run: Run) -> None:
    lease = run(cache, [1, 2])
    cache.release(lease)
    uses: list[Callable[[], None]] = [
        lambda: cache.grow(lease, 4),
        lambda: cache.shrink(lease, 0),
        lambda: cache.commit(lease, pack([1, 2])),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="2 committed tokens was released; acquire a new one"):
            use()
    assert lease.extents == []


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (0, -1), (2, 3), (5, 0)])
def test_positions_outside_a_lease_are_refused(cache: KvCache, start: int, length: int) -> None:
    lease = cache.acquire(b"n", b"")
    cache.grow(lease, 4)
    with pytest.raises(ValueError, match="outside the lease's 4"):
        lease.extents_for(start, length)
    assert lease.extents_for(4, 0) == []


def test_negative_limits_are_refused(cache: KvCache) -> None:
    with pytest.raises(ValueError, match="max_match must not be negative, got -1"):
        cache.acquire(b"n", pack([1]), max_match=-1)
    with pytest.raises(ValueError, match="eviction_step must be at least 1, got 0"):
        KvCache(SlotAllocator(4), RadixTree(), eviction_step=0)
