from __future__ import annotations

import pytest

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.prune import ByNamespace
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import chain, first_parent
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree
from tests.runtime.kv.world import PUBLIC, FakeFetch, World

PROMPT = list(range(200, 264))
"""Four blocks."""


@pytest.fixture
def world() -> World:
    return World(100, eviction_step=1)


def restore(world: World, tokens: list[int], namespace: bytes = b"n", **kwargs: int) -> int:
    """Bring back what can be; returns how many tokens that added."""
    assert world.begin_restore(namespace, tokens, NO_SCOPE)
    return world.finish_restore(world.restores[-1], kwargs.get("arrived"))


@pytest.mark.parametrize("evicted", [1, 16, 17, 31, 40, 64])
def test_what_was_evicted_comes_back_as_it_was(world: World, evicted: int) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(evicted)
    wanted = world.cache.restorable(b"n", pack(PROMPT))
    assert wanted is not None
    assert (wanted.cached, wanted.gained) == (64 - evicted, evicted)
    assert restore(world, PROMPT) == evicted
    world.check()
    run = world.begin(b"n", [*PROMPT, 1])
    assert run.lease.cached == 64
    assert world.cache.counters.restored == evicted


def test_blocks_that_lie_in_several_nodes_are_saved_whole(world: World) -> None:
    world.whole(b"n", PROMPT)
    for end in (5, 20, 30, 31, 50):
        world.begin(b"n", [*PROMPT[:end], 9])  # splits, and locks
    for run in list(world.running):
        world.release(run)
    world.cache.evict(64)
    assert len(world.tiers.blocks) == 4
    assert restore(world, PROMPT) == 64
    world.begin(b"n", [*PROMPT, 1])
    world.check()


def test_nothing_is_restorable_when_nothing_would_be_gained(world: World) -> None:
    assert world.cache.restorable(b"n", pack(PROMPT)) is None
    world.whole(b"n", PROMPT)
    assert world.cache.restorable(b"n", pack(PROMPT)) is None
    world.cache.evict(16)
    assert world.cache.restorable(b"n", pack(PROMPT), max_match=63) is None, "no whole block"
    world.tiers.worth_it = False
    assert world.cache.restorable(b"n", pack(PROMPT)) is None
    plain = KvCache(SlotAllocator(10), RadixTree())
    assert plain.restorable(b"n", pack(PROMPT)) is None


def test_only_the_blocks_that_follow_are_asked_for(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(64)
    names = chain(first_parent(b"n"), pack(PROMPT))
    del world.tiers.blocks[names[2]]
    wanted = world.cache.restorable(b"n", pack(PROMPT))
    assert wanted is not None
    assert wanted.names == tuple(names[:2])
    world.whole(b"n", PROMPT[:20])
    wanted = world.cache.restorable(b"n", pack(PROMPT))
    assert wanted is not None
    assert (wanted.cached, wanted.gained, wanted.names) == (20, 12, (names[1],))


def test_a_branch_comes_back_also_where_the_device_has_one_long_run() -> None:
    world = World(200)
    branch = [*PROMPT[:40], *range(24)]
    for tokens in (PROMPT, branch, PROMPT):
        world.whole(b"n", tokens)
    world.cache.evict(24)
    world.whole(b"n", PROMPT)
    assert len(world.tree.match(b"n", pack(PROMPT)).node.path()) == 1
    wanted = world.cache.restorable(b"n", pack(branch))
    assert wanted is not None
    assert (wanted.cached, wanted.first_block, wanted.gained) == (40, 2, 24)
    assert restore(world, branch) == 24
    world.begin(b"n", [*branch, 1])
    world.check()


def test_no_tenant_restores_what_another_one_computed(world: World) -> None:
    """R22, through host memory."""
    world.whole(b"ann", PROMPT)
    world.cache.evict(64)
    assert world.cache.restorable(b"ann", pack(PROMPT)) is not None
    assert world.cache.restorable(b"bob", pack(PROMPT)) is None


def test_what_hangs_on_a_public_prefix_comes_back_to_its_tenant_only(world: World) -> None:
    scope = Scope(public=PUBLIC)
    world.publish(PROMPT[:20])
    for tenant in (b"ann", b"bob"):
        world.whole(tenant, [*PROMPT[:20], *tenant, *range(40)], scope)
    ann = [*PROMPT[:20], *b"ann", *range(40)]
    world.cache.evict(100)
    assert world.tree.total_tokens == 20
    assert {owner for owner, _ in world.tiers.blocks.values()} == {b"ann", b"bob"}
    assert world.cache.restorable(b"bob", pack(ann), scope=scope) is None
    wanted = world.cache.restorable(b"ann", pack(ann), scope=scope)
    assert wanted is not None
    assert (wanted.cached, wanted.first_block) == (20, 1)
    assert world.begin_restore(b"ann", ann, scope)
    assert world.finish_restore(world.restores[0], None) == 48 - 20
    world.begin(b"ann", ann, scope)
    world.check()


def test_what_arrived_is_used_when_the_rest_did_not(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(64)
    assert restore(world, PROMPT, arrived=2) == 32
    world.check()
    assert restore(world, PROMPT) == 32


def test_what_was_computed_meanwhile_is_not_taken_twice() -> None:
    world = World(200)
    world.whole(b"n", PROMPT)
    world.cache.evict(64)
    assert world.begin_restore(b"n", PROMPT, NO_SCOPE)
    world.whole(b"n", PROMPT[:40])
    assert world.finish_restore(world.restores[0], None) == 24
    world.check()
    assert world.cache.free_slots == 200 - 64


def test_the_device_s_part_stays_while_blocks_are_fetched(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(30)
    assert world.begin_restore(b"n", PROMPT, NO_SCOPE)
    world.cache.evict(100)
    assert world.cache.peek(b"n", pack(PROMPT)) == 32
    assert world.finish_restore(world.restores[0], None) == 32
    world.check()


def test_short_of_slots_only_what_fits_is_restored(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(64)
    run = world.begin(b"m", list(range(70)))
    world.compute(run, 70)
    assert restore(world, PROMPT) == 16
    world.check()


def test_without_any_slot_nothing_is_restored_and_nothing_waits(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(64)
    run = world.begin(b"m", list(range(90)))
    world.compute(run, 90)
    assert restore(world, PROMPT) == 0
    world.check()
    world.end()


def test_a_failed_load_adds_nothing_and_leaks_nothing(world: World) -> None:
    """R8."""
    world.whole(b"n", PROMPT)
    world.cache.evict(50)
    assert world.begin_restore(b"n", PROMPT, NO_SCOPE)
    begun = world.restores.pop()
    assert isinstance(begun.fetch, FakeFetch)
    begun.fetch.arrive()
    world.tiers.load_fails = True
    with pytest.raises(RuntimeError, match="the device is gone"):
        world.cache.finish_restore(begun)
    assert world.cache.peek(b"n", pack(PROMPT)) == 14
    world.check()
    assert world.cache.finish_restore(begun) == 0
    world.end()


def test_a_cancelled_restore_lets_go(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(30)
    assert world.begin_restore(b"n", PROMPT, NO_SCOPE)
    begun = world.restores.pop()
    world.cache.cancel_restore(begun)
    world.cache.cancel_restore(begun)
    world.check()
    assert world.cache.available == 100


def test_what_was_pruned_meanwhile_does_not_come_back(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.cache.evict(30)
    assert world.begin_restore(b"n", PROMPT, NO_SCOPE)
    report = world.cache.prune(ByNamespace(b"n"))
    assert report.condemned_tokens == 32
    assert world.finish_restore(world.restores[0], None) == 0
    assert world.tree.total_tokens == 0
    world.check()


def test_forgotten_namespaces_leave_nothing_in_slower_tiers(world: World) -> None:
    """R20: also when the weights have changed."""
    for namespace in (b"n", b"m"):
        world.whole(namespace, PROMPT)
        world.cache.evict(64)
    world.cache.clear(b"n")
    assert world.cache.restorable(b"n", pack(PROMPT)) is None
    assert world.cache.restorable(b"m", pack(PROMPT)) is not None
    world.cache.clear()
    assert world.tiers.blocks == {}


def test_parents_stay_on_the_device_while_a_child_is_there(world: World) -> None:
    """R8: whatever becomes of the copies, eviction is leaf-first."""
    world.whole(b"n", PROMPT)
    reader = world.begin(b"n", PROMPT)
    world.tiers.capacity = 0  # every copy is lost
    world.cache.evict(100)
    assert world.cache.peek(b"n", pack(PROMPT)) == 63
    world.release(reader)
    world.check()
