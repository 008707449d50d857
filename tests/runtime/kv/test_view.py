from __future__ import annotations

import time

import pytest

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.hints import LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree
from agentkit_runtime.kv.view import MAX_NODES, SHOWN_TOKENS, tree_view
from tests.runtime.kv.world import PUBLIC, World

RULES = list(range(100, 140))


@pytest.fixture
def world() -> World:
    return World(400)


def scope(session: str | None = None, *tags: str, tenant: str = "ann") -> Scope:
    return Scope(tenant=tenant, session=session, tags=frozenset(tags), public=PUBLIC)


def test_a_view_shows_parents_before_children_and_what_was_used_last_first(world: World) -> None:
    world.whole(b"ann", [*RULES, 1, 2], scope("cold"))
    world.whole(b"ann", [*RULES, 3, 4], scope("hot"))
    view = world.cache.view()
    root, rules, hot, cold = view.nodes
    assert (root.parent, root.tokens, root.id, root.children) == (None, 0, -1, 1)
    assert (rules.parent, rules.start, rules.tokens, rules.hits) == (0, 0, 40, 2)
    assert [(node.parent, node.start, node.tokens) for node in (hot, cold)] == [(1, 40, 2)] * 2
    assert (hot.sessions, cold.sessions) == (("hot",), ("cold",))
    assert hot.uses_ago < cold.uses_ago
    assert {node.tenant for node in view.nodes} == {"ann"}
    assert view.complete
    assert view.total_tokens == 44


def test_looking_changes_nothing(world: World) -> None:
    world.whole(b"ann", RULES, scope("s"))
    before = world.cache.view(with_tokens=True)
    assert world.cache.view(with_tokens=True) == before
    world.check()


def test_pins_and_published_prefixes_mark_the_paths_that_they_keep(world: World) -> None:
    world.publish(RULES[:20])
    world.whole(b"ann", [*RULES, 1], scope())
    world.whole(b"ann", [*RULES, 2], scope())
    world.cache.pin(b"ann", pack(RULES), scope=scope())
    shown = {(node.start, node.tokens): node for node in world.cache.view().nodes if node.tokens}
    assert {place: node.published for place, node in shown.items()} == {
        (0, 20): True,
        (20, 20): False,
        (40, 1): False,
    }
    assert shown[20, 20].pinned
    assert not shown[40, 1].pinned


def test_tokens_are_shown_only_when_asked_for_and_never_many(world: World) -> None:
    world.whole(b"ann", list(range(SHOWN_TOKENS + 30)), scope())
    assert {node.token_ids for node in world.cache.view().nodes} == {b""}
    _, node = world.cache.view(with_tokens=True).nodes
    assert node.token_ids == pack(range(SHOWN_TOKENS))


def test_a_view_of_one_tenant_has_nothing_of_others(world: World) -> None:
    for tenant in ("ann", "bob"):
        world.whole(tenant.encode(), RULES, scope(tenant=tenant))
    assert [node.tenant for node in world.cache.view(tenant="bob").nodes] == ["bob"] * 2
    assert world.cache.view(tenant="eve").nodes == []


def test_depth_and_number_are_bounded_and_the_view_says_so(world: World) -> None:
    world.whole(b"ann", [*RULES, 1], scope())
    world.whole(b"ann", [*RULES, 2], scope())
    shallow = world.cache.view(depth=1)
    assert [node.tokens for node in shallow.nodes] == [0, 40]
    assert shallow.nodes[1].children == 2
    assert not shallow.complete
    assert not world.cache.view(limit=3).complete
    with pytest.raises(ValueError, match="limit"):
        world.cache.view(limit=MAX_NODES + 1)


def test_a_huge_tree_is_looked_at_in_bounded_time() -> None:
    tree = RadixTree()
    for i in range(100_000):
        # Half of them are children of one node, the others lie below each other.
        tokens = pack([7, i, 1, 5] if i % 2 else [i % 300 + 10, i // 300 % 20, i, 5])
        tree.insert(b"n", tokens, [Extent(4 * i, 4)])
    took = []
    for _ in range(5):
        began = time.thread_time()
        view = tree_view(tree, pins=[], published=[], limit=500)
        took.append(time.thread_time() - began)
    assert len(view.nodes) == 500
    assert not view.complete
    assert min(took) < 0.02


def test_sessions_say_how_much_they_have_and_what_hints_said(world: World) -> None:
    for session in ("waits", "done", "plain"):
        world.whole(b"ann", [*RULES, *session.encode()], scope(session, "editor"))
    world.whole(b"ann", RULES, scope(None, "reader"))
    world.whole(b"bob", RULES, scope("plain", tenant="bob"))
    world.cache.hint(SessionWaits("waits", 10.0, tenant="ann"))
    world.cache.hint(SessionDone("done", tenant="ann"))
    shown = {(s.session, s.tags): s for s in world.cache.sessions(tenant="ann")}
    assert {key: (s.expected, s.done) for key, s in shown.items()} == {
        ("waits", ("editor",)): (True, False),
        ("done", ("editor",)): (False, True),
        ("plain", ("editor",)): (False, False),
        (None, ("reader",)): (False, False),
    }
    assert shown["plain", ("editor",)].tokens == 45
    assert shown["plain", ("editor",)].requests == 1
    world.cache.hint(LikelyNext(frozenset({"reader"}), 10.0, tenant="ann"))
    assert world.cache.sessions(tenant="ann", limit=1)[0].expected
    assert len(world.cache.sessions()) == 5
