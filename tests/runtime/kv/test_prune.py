from __future__ import annotations

import pytest

from agentkit_runtime.kv.prune import (
    ByNamespace,
    ByPin,
    ByPrefix,
    BySession,
    ByTag,
    ByTenant,
    Selector,
)
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from tests.runtime.kv.world import World

FRONT = list(range(100, 110))


@pytest.fixture
def world() -> World:
    return World(300)


def session(name: str, *tags: str, tenant: str = "ann") -> Scope:
    return Scope(tenant=tenant, session=name, tags=frozenset(tags))


def test_a_prefix_goes_with_all_that_starts_with_it(world: World) -> None:
    for tail in ([1, 2], [1, 3, 4], [5]):
        world.whole(b"n", [*FRONT, *tail])
    report = world.cache.prune(ByPrefix(b"n", pack([*FRONT, 1])))
    assert (report.freed_tokens, report.condemned_tokens) == (4, 0)
    assert world.cache.peek(b"n", pack([*FRONT, 1])) == 10
    assert world.cache.peek(b"n", pack([*FRONT, 5])) == 11
    world.check()


def test_of_the_prefix_itself_goes_what_nothing_else_shares(world: World) -> None:
    world.whole(b"n", [*FRONT, 1, 2, 3, 4])
    world.whole(b"n", [*FRONT[:4], 9])
    assert world.cache.prune(ByPrefix(b"n", pack([*FRONT, 1, 2]))).freed_tokens == 10
    assert world.cache.peek(b"n", pack(FRONT)) == 4
    world.check()


def test_a_prefix_that_is_not_all_cached_prunes_nothing(world: World) -> None:
    world.whole(b"n", FRONT)
    for tokens in ([*FRONT, 1], [9], [*FRONT[:3], 9]):
        assert world.cache.prune(ByPrefix(b"n", pack(tokens))).nodes == 0
    assert world.cache.peek(b"n", pack(FRONT)) == 10


def test_what_runs_finishes_and_is_found_by_nobody(world: World) -> None:
    running = world.begin(b"n", [*FRONT, 1, 2, 3])
    world.compute(running, 12)
    report = world.cache.prune(ByPrefix(b"n", pack(FRONT)), dry_run=True)
    assert world.cache.prune(ByPrefix(b"n", pack(FRONT))).condemned_tokens == 12
    assert (report.condemned_tokens, report.freed_tokens) == (12, 0)
    assert world.cache.peek(b"n", pack(FRONT)) == 0
    world.check()
    world.compute(running, 1)
    assert running.lease.committed == 12
    twin = world.begin(b"n", [*FRONT, 1, 2, 3])
    assert twin.lease.cached == 0
    world.compute(twin, 13)
    world.check()
    world.release(running)
    world.check()
    assert world.cache.peek(b"n", pack(FRONT)) == 10, "the new one is not touched"
    assert world.tree.total_tokens == 13


def test_two_that_run_on_it_free_it_with_the_last(world: World) -> None:
    world.whole(b"n", FRONT)
    one, two = (world.begin(b"n", [*FRONT, tail]) for tail in (1, 2))
    world.compute(one, 1)
    world.cache.prune(ByNamespace(b"n"))
    world.release(one)
    world.check()
    assert world.tree.total_tokens == 10
    world.release(two)
    world.check()
    assert world.tree.total_tokens == 0


def test_a_session_takes_its_own_tail_and_leaves_what_others_use(world: World) -> None:
    world.whole(b"n", [*FRONT, 1, 2], session("a"))
    world.whole(b"n", [*FRONT, 1, 2, 3], session("a"))
    world.whole(b"n", [*FRONT, 7], session("b"))
    assert world.cache.prune(BySession("a", "ann")).freed_tokens == 3
    assert world.cache.peek(b"n", pack([*FRONT, 7])) == 11
    assert world.cache.prune(BySession("b", "ann")).freed_tokens == 11
    world.end()


def test_both_branches_of_a_session_go_and_what_led_to_them(world: World) -> None:
    world.whole(b"n", [*FRONT, 1, 2], session("a"))
    world.whole(b"n", [*FRONT, 3, 4], session("a"))
    assert world.cache.prune(BySession("a", "ann")).freed_tokens == 14
    world.end()


def test_what_somebody_without_labels_went_on_from_stays(world: World) -> None:
    world.whole(b"n", [*FRONT, 1], session("a"))
    world.whole(b"n", [*FRONT, 1, 2])
    assert world.cache.prune(BySession("a", "ann")).nodes == 0
    assert world.cache.peek(b"n", pack([*FRONT, 1, 2])) == 12


def test_a_session_that_was_half_evicted_is_still_known(world: World) -> None:
    world.whole(b"n", FRONT, session("other"))
    world.whole(b"n", [*FRONT, 1, 2, 3], session("a"))
    world.cache.release(world.cache.acquire(b"n", pack(FRONT)))
    world.cache.evict(2)
    assert world.cache.prune(BySession("a", "ann")).freed_tokens == 1
    world.check()


def test_labels_are_a_tenants_own(world: World) -> None:
    world.whole(b"a", FRONT, session("s", "x", tenant="ann"))
    world.whole(b"b", FRONT, session("s", "x", tenant="bob"))
    for selector in (BySession("s", "bob"), ByTag("x", "bob")):
        assert world.cache.prune(selector, dry_run=True).freed_tokens == 10
    world.cache.prune(BySession("s", "bob"))
    assert world.cache.peek(b"a", pack(FRONT)) == 10


def test_a_tag_takes_all_its_sessions(world: World) -> None:
    for name, tail in (("a", 1), ("b", 2)):
        world.whole(b"n", [*FRONT, tail], session(name, "draft"))
    world.whole(b"n", [*FRONT, 3], Scope(tenant="ann", tags=frozenset({"draft", "y"})))
    world.whole(b"n", [*FRONT[:5], 4], session("c", "final"))
    assert world.cache.prune(ByTag("draft", "ann")).freed_tokens == 8
    assert world.cache.peek(b"n", pack([*FRONT[:5], 4])) == 6
    world.check()


def test_a_pin_goes_with_its_prefix_and_an_unknown_one_is_named(world: World) -> None:
    world.whole(b"n", [*FRONT, 1])
    handle = world.pin(b"n", FRONT, Scope(tenant="ann"), None)
    assert handle is not None
    report = world.cache.prune(ByPin(handle))
    assert (report.freed_tokens, report.pins) == (11, 1)
    assert world.cache.pins() == []
    with pytest.raises(LookupError, match=f"no pin '{handle}'"):
        world.cache.prune(ByPin(handle))


def test_a_session_does_not_take_a_pin_with_it(world: World) -> None:
    world.whole(b"n", FRONT, session("a"))
    world.pin(b"n", FRONT[:6], Scope(tenant="ann"), None)
    assert world.cache.prune(BySession("a", "ann")).freed_tokens == 4
    assert len(world.cache.pins()) == 1


def test_a_tenant_takes_all_its_namespaces_and_their_blocks_in_slower_tiers(world: World) -> None:
    for namespace, tenant in ((b"a1", "ann"), (b"a2", "ann"), (b"b", "bob")):
        world.whole(namespace, list(range(20)), Scope(tenant=tenant))
    world.cache.evict(300)
    assert len(world.tiers.blocks) == 3
    assert world.cache.prune(ByTenant("ann"), dry_run=True).freed_tokens == 0
    assert len(world.tiers.blocks) == 3
    world.cache.prune(ByTenant("ann"))
    assert {owner for owner, _ in world.tiers.blocks.values()} == {b"b"}
    world.check()


def test_all_that_has_no_tenant_s_label_can_be_pruned_like_a_tenant(world: World) -> None:
    world.whole(b"n", list(range(20)))
    world.cache.evict(20)
    world.whole(b"n", list(range(20)))
    world.whole(b"a", list(range(20)), Scope(tenant="ann"))
    assert world.cache.prune(ByTenant("")).freed_tokens == 20
    assert world.tiers.blocks == {}
    assert world.cache.peek(b"a", pack(range(20))) == 20


@pytest.mark.parametrize(
    "selector",
    [
        ByPrefix(b"n", pack(FRONT[:3])),
        ByPrefix(b"n", b""),
        ByNamespace(b"n"),
        ByTenant("ann"),
        BySession("a", "ann"),
        ByTag("x", "ann"),
    ],
)
def test_a_dry_run_changes_nothing_and_promises_what_happens(
    world: World, selector: Selector
) -> None:
    world.whole(b"n", [*FRONT, 1], session("a", "x"))
    world.begin(b"n", [*FRONT, 2], session("a", "x"))
    world.pin(b"n", FRONT[:4], Scope(tenant="ann"), None)
    shape = [(n.edge, n.locks) for root in world.tree.roots() for n in root.subtree()]
    world.cache.prune(selector, dry_run=True)
    assert shape == [(n.edge, n.locks) for root in world.tree.roots() for n in root.subtree()]
    world.prune(selector)
    world.check()
    world.end()
