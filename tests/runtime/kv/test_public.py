from __future__ import annotations

import pytest

from agentkit_runtime.errors import NotCached, PinRefused
from agentkit_runtime.kv.prune import ByNamespace, ByPrefix, ByTenant
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from tests.runtime.kv.world import PUBLIC, World

RULES = list(range(500, 520))
ANN = Scope(tenant="ann", public=PUBLIC)
BOB = Scope(tenant="bob", public=PUBLIC)


@pytest.fixture
def world() -> World:
    return World(200)


def public_tokens(world: World) -> int:
    root = world.tree.root(PUBLIC)
    return 0 if root is None else sum(node.extent.length for node in root.subtree())


def test_tenants_go_on_from_a_published_prefix_on_the_same_slots(world: World) -> None:
    world.publish(RULES)
    ann = world.begin(b"ann", [*RULES, 1, 2, 3], ANN)
    bob = world.begin(b"bob", [*RULES, 1, 2, 3], BOB)
    assert (ann.lease.cached, ann.lease.public) == (20, 20)
    assert ann.slots() == bob.slots()
    for run in (ann, bob):
        world.compute(run, 3)
    assert set(ann.slots()) & set(bob.slots()) == set(ann.slots()[:20])
    world.check()
    assert world.cache.counters.matched_public == 40


def test_no_tenant_sees_what_another_one_has_behind_the_public_part(world: World) -> None:
    """R22."""
    world.publish(RULES)
    world.whole(b"ann", [*RULES, 1, 2, 3], ANN)
    assert world.cache.peek(b"ann", pack([*RULES, 1, 2, 3]), scope=ANN) == 23
    assert world.cache.peek(b"bob", pack([*RULES, 1, 2, 3]), scope=BOB) == 20
    assert world.begin(b"bob", [*RULES, 1, 2, 3], BOB).lease.cached == 20
    walk = world.cache.explain(b"bob", pack([*RULES, 1, 2, 3]), scope=BOB)
    assert (walk.matched, walk.branch) == (20, b"")


def test_tenants_write_nothing_into_the_public_root(world: World) -> None:
    world.publish(RULES)
    for tail in ([1], [2], []):
        world.whole(b"ann", [*RULES[:10], *tail, 9], ANN)
        world.whole(b"ann", [*RULES, *tail, 9], ANN)
    assert public_tokens(world) == 20
    world.check()


def test_a_part_of_a_published_prefix_is_not_public(world: World) -> None:
    world.publish(RULES)
    assert world.begin(b"ann", [*RULES[:19], 1, 2], ANN).lease.cached == 0
    assert world.begin(b"ann", RULES, ANN).lease.cached == 0, "its last token must be computed"


def test_what_the_operator_has_not_published_is_not_public(world: World) -> None:
    world.whole(PUBLIC, [*RULES, 7, 8])
    world.publish(RULES)
    assert world.begin(b"ann", [*RULES, 7, 8, 9], ANN).lease.cached == 20


def test_who_may_not_read_the_public_root_starts_cold(world: World) -> None:
    world.publish(RULES)
    assert world.begin(b"ann", [*RULES, 1, 2], Scope(tenant="ann")).lease.cached == 0
    other = Scope(tenant="ann", public=b"another operator")
    assert world.begin(b"ann", [*RULES, 1, 2], other).lease.cached == 0


def test_the_operator_goes_on_in_the_public_root_itself(world: World) -> None:
    world.publish(RULES)
    assert world.whole(PUBLIC, [*RULES, 1, 2], Scope(public=PUBLIC))
    assert public_tokens(world) == 22


def test_the_longest_published_prefix_is_taken(world: World) -> None:
    world.publish(RULES[:8])
    world.whole(b"ann", [*RULES, 1], ANN)
    world.publish(RULES)
    lease = world.begin(b"ann", [*RULES, 1, 2], ANN).lease
    assert lease.public == 20
    assert world.begin(b"ann", [*RULES[:12], 1], ANN).lease.public == 8
    world.check()


def test_a_public_prefix_is_never_evicted_while_it_is_published(world: World) -> None:
    handle = world.publish(RULES)
    assert handle is not None
    world.whole(b"ann", [*RULES, 1, 2, 3], ANN)
    assert world.cache.evict(200) == 3
    assert public_tokens(world) == 20
    assert [p.tokens for p in world.cache.published()] == [20]
    assert world.cache.unpublish(handle)
    assert world.cache.evict(200) == 20
    world.end()


def test_unpublishing_hides_what_hangs_on_it_and_spares_who_runs_there(world: World) -> None:
    handle = world.publish(RULES)
    assert handle is not None
    world.whole(b"ann", [*RULES, 1, 2, 3, 4], ANN)
    running = world.begin(b"ann", [*RULES, 1, 2, 9, 9], ANN)
    pin = world.pin(b"ann", [*RULES, 1], ANN, None)
    assert pin is not None
    assert world.cache.unpublish(handle)
    assert not world.cache.unpublish(handle)
    assert world.cache.pins() == []
    world.check()
    assert world.cache.peek(b"ann", pack([*RULES, 1, 2]), scope=ANN) == 0
    world.compute(running, 9)
    assert running.lease.committed == 22, "it shares nothing more"
    world.release(running)
    world.check()
    assert world.tree.total_tokens == 20
    world.end()


def test_publishing_again_starts_with_new_tails(world: World) -> None:
    handle = world.publish(RULES)
    assert handle is not None
    running = world.begin(b"ann", [*RULES, 1, 2], ANN)
    world.cache.unpublish(handle)
    again = world.publish(RULES)
    assert again not in (None, handle)
    other = world.begin(b"ann", [*RULES, 1, 2], ANN)
    assert other.lease.cached == 20
    for run in (running, other):
        world.compute(run, 2)
    assert (running.lease.committed, other.lease.committed) == (20, 22)
    world.check()
    world.end()


def test_only_cached_tokens_can_be_published_and_not_too_many(world: World) -> None:
    world.whole(PUBLIC, RULES[:5])
    with pytest.raises(NotCached, match="20 tokens are to be published, but only the first 5"):
        world.cache.publish(PUBLIC, pack(RULES))
    world.whole(PUBLIC, list(range(101)))
    with pytest.raises(PinRefused, match="101 tokens would be pinned"):
        world.cache.publish(PUBLIC, pack(range(101)))
    with pytest.raises(ValueError, match="at least one token"):
        world.cache.publish(PUBLIC, b"")
    world.check()


def test_published_prefixes_count_in_the_quota_of_all(world: World) -> None:
    world.publish(list(range(90)))
    world.whole(b"ann", RULES)
    assert world.pin(b"ann", RULES, ANN, None) is None
    assert world.pin(b"ann", RULES[:10], ANN, None) is not None


def test_a_published_prefix_is_not_pruned_by_mistake(world: World) -> None:
    world.publish(RULES)
    for selector in (ByNamespace(PUBLIC), ByPrefix(PUBLIC, pack(RULES[:3]))):
        with pytest.raises(ValueError, match="unpublish it first"):
            world.cache.prune(selector)
    world.check()


def test_pruning_a_namespace_takes_what_it_has_behind_public_prefixes(world: World) -> None:
    world.publish(RULES)
    for tenant, scope in ((b"ann", ANN), (b"bob", BOB)):
        world.whole(tenant, [*RULES, 1, 2, 3], scope)
        world.whole(tenant, [7, 8], scope)
    assert world.cache.prune(ByNamespace(b"ann")).freed_tokens == 5
    assert world.cache.prune(ByTenant("bob")).freed_tokens == 5
    assert world.tree.total_tokens == 20
    world.check()


def test_clearing_the_public_root_ends_publication(world: World) -> None:
    world.publish(RULES)
    world.whole(b"ann", [*RULES, 1, 2, 3], ANN)
    assert world.cache.clear(PUBLIC) == 23
    assert world.cache.published() == []
    world.end()


def test_a_refused_pin_leaves_no_root_behind() -> None:
    """Else it would hold the public prefix for ever."""
    world = World(200)
    handle = world.publish(RULES)
    assert handle is not None
    cache = world.cache
    world.whole(b"other", list(range(40)))
    cache.pin(b"other", pack(range(40)), scope=Scope(tenant="ann"))
    assert world.pin(b"ann", RULES, ANN, None) is None
    world.check()
    assert cache.unpublish(handle)
    world.end()
