from __future__ import annotations

import pytest

from agentkit_runtime.kv import branch as branches
from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.prune import ByPrefix
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.view import NodeView
from tests.runtime.kv.world import PUBLIC, World

RULES = list(range(100, 140))
SCOPE = Scope(tenant="ann", public=PUBLIC)


@pytest.fixture
def world() -> World:
    return World(400)


def shown(world: World, start: int, tokens: int) -> NodeView:
    (node,) = (n for n in world.cache.view().nodes if (n.start, n.tokens) == (start, tokens))
    return node


def test_a_node_that_is_shown_can_be_pinned_and_says_so(world: World) -> None:
    world.whole(b"ann", [*RULES, 1], SCOPE)
    world.whole(b"ann", [*RULES, 2], SCOPE)
    branch = world.cache.branch(node=shown(world, 0, 40).id, end=40, tenant="ann")
    assert branch is not None
    assert (branch.namespace, branch.tokens) == (b"ann", pack(RULES))
    pin = world.cache.pin(branch.namespace, branch.tokens, scope=branch.scope)
    assert (pin.tenant, pin.tokens) == ("ann", 40)
    assert shown(world, 0, 40).pins == (pin.handle,)
    assert [node.pins for node in world.cache.view().nodes if node.start == 40] == [(), ()]
    world.check()


def test_a_node_behind_a_published_prefix_is_named_with_it(world: World) -> None:
    world.publish(RULES[:20])
    world.whole(b"ann", [*RULES, 1], SCOPE)
    branch = world.cache.branch(node=shown(world, 20, 21).id, end=41, tenant="ann")
    assert branch is not None
    assert branch.tokens == pack([*RULES, 1])
    assert world.cache.pin(branch.namespace, branch.tokens, scope=branch.scope).tokens == 41
    report = world.cache.prune(ByPrefix(branch.namespace, branch.tokens))
    assert (report.freed_tokens, report.pins) == (21, 1)
    world.check()


def test_what_is_not_there_or_is_anothers_is_not_found(world: World) -> None:
    world.whole(b"ann", RULES, SCOPE)
    node = shown(world, 0, 40)
    assert world.cache.branch(node=node.id, end=40, tenant="ann") is not None
    assert world.cache.branch(node=node.id, end=40, tenant="bob") is None
    assert world.cache.branch(node=node.id, end=39, tenant="ann") is None
    assert world.cache.branch(node=node.id + 1, end=40, tenant="ann") is None


def test_a_branch_that_was_pruned_while_it_is_used_is_not_found(world: World) -> None:
    run = world.begin(b"ann", RULES, SCOPE)
    world.compute(run, 40)
    node = shown(world, 0, 40)
    world.cache.prune(ByPrefix(b"ann", pack(RULES)))
    assert world.cache.branch(node=node.id, end=40, tenant="ann") is None
    world.release(run)
    world.check()


def test_all_that_is_shown_is_found_and_no_more_than_so_many_nodes_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(2_000)
    for n in range(300):
        world.whole(b"ann", [*RULES[:4], n, 1], SCOPE)
        world.whole(b"bob", [*RULES[:4], n, 1], Scope(tenant="bob"))
    taken: list[Node] = []
    take = branches.Hottest.take

    def counted(queue: branches.Hottest[None]) -> tuple[Node, None]:
        taken.append(take(queue)[0])
        return taken[-1], None

    view = world.cache.view(limit=40, tenant="ann")
    monkeypatch.setattr(branches, "MOST_NODES", 100)
    monkeypatch.setattr(branches.Hottest, "take", counted)
    for node in view.nodes:
        if node.tokens:
            end = node.start + node.tokens
            assert world.cache.branch(node=node.id, end=end, tenant="ann") is not None
    taken.clear()
    assert world.cache.branch(node=10**6, end=6, tenant="ann") is None
    assert len(taken) == 100
