from __future__ import annotations

import pytest

from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack, unpack
from tests.runtime.kv.world import PUBLIC, World


@pytest.fixture
def world() -> World:
    world = World(300)
    world.whole(b"n", [1, 2, 3, 4, 5, 6])
    return world


def test_where_a_prompt_parts_from_what_is_cached_is_shown(world: World) -> None:
    walk = world.cache.explain(b"n", pack([1, 2, 3, 9, 9]))
    assert (walk.n_tokens, walk.matched, walk.asked, walk.cached) == (5, 3, 9, 4)
    assert unpack(walk.branch) == [4, 5, 6]
    assert walk.branch_tokens == 3


def test_a_prompt_that_goes_on_past_what_is_cached_has_no_other_side(world: World) -> None:
    walk = world.cache.explain(b"n", pack([1, 2, 3, 4, 5, 6, 7]))
    assert (walk.matched, walk.asked, walk.cached, walk.branch) == (6, 7, None, b"")


def test_a_prompt_that_is_all_cached_asks_for_nothing(world: World) -> None:
    walk = world.cache.explain(b"n", pack([1, 2, 3]))
    assert (walk.matched, walk.asked, walk.cached) == (3, None, 4)


def test_an_unknown_namespace_knows_nothing(world: World) -> None:
    walk = world.cache.explain(b"m", pack([1, 2]))
    assert (walk.matched, walk.asked, walk.cached, walk.uses_ago) == (0, 1, None, 0)
    assert [root.namespace for root in world.tree.roots()] == [b"n"]


def test_of_several_branches_the_one_used_last_is_shown(world: World) -> None:
    for tail in ([7, 7], [8, 8], [7, 7]):
        world.whole(b"n", [1, 2, 3, *tail])
    walk = world.cache.explain(b"n", pack([1, 2, 3, 9]))
    assert (walk.cached, walk.branch_tokens) == (7, 2)


def test_how_long_ago_the_branch_was_used_is_counted_in_uses(world: World) -> None:
    before = world.cache.explain(b"n", pack([1, 2, 9])).uses_ago
    for n in range(4):
        world.cache.release(world.cache.acquire(b"other", pack([n])))
    assert world.cache.explain(b"n", pack([1, 2, 9])).uses_ago == before + 4


def test_the_other_side_is_shown_in_part_and_counted_as_a_whole(world: World) -> None:
    world.whole(b"n", [7, *range(100, 200)])
    world.whole(b"n", [7, *range(100, 150), 5])
    world.whole(b"n", [7, *range(100, 200)])
    walk = world.cache.explain(b"n", pack([7, 8]))
    assert unpack(walk.branch) == list(range(100, 164))
    assert walk.branch_tokens == 100


def test_behind_a_public_prefix_only_one_s_own_is_shown(world: World) -> None:
    world.publish([50, 51, 52])
    world.whole(PUBLIC, [50, 51, 52, 60])
    scope = Scope(public=PUBLIC)
    walk = world.cache.explain(b"n", pack([50, 51, 52, 9]), scope=scope)
    assert (walk.matched, walk.public, walk.cached) == (3, 3, None)
    world.whole(b"n", [50, 51, 52, 8, 8], scope)
    walk = world.cache.explain(b"n", pack([50, 51, 52, 9]), scope=scope)
    assert (walk.matched, walk.public, walk.cached) == (3, 3, 8)


def test_looking_leaves_no_trace(world: World) -> None:
    nodes = [(n.edge, n.last_used) for root in world.tree.roots() for n in root.subtree()]
    world.cache.explain(b"n", pack([1, 2, 9]))
    world.cache.explain(b"n", pack([1, 2, 9]), scope=Scope(public=PUBLIC))
    assert nodes == [(n.edge, n.last_used) for root in world.tree.roots() for n in root.subtree()]
