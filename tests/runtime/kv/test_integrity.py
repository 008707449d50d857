"""The checks must see each kind of damage, or the tests that rely on them prove nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.integrity import IntegrityError, check_cache
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.node import Node, RootNode
from agentkit_runtime.kv.prune import ByNamespace
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree
from tests.runtime.kv import world as full_world


class World:
    """16 slots: an unlocked branch, a lease on the other one with two private slots, 8 free."""

    def __init__(self) -> None:
        self.allocator = SlotAllocator(16)
        self.tree = RadixTree()
        cache = KvCache(self.allocator, self.tree)
        other = cache.acquire(b"n", b"")
        cache.grow(other, 4)
        cache.commit(other, pack([1, 2, 3, 4]))
        cache.release(other)
        self.lease = cache.acquire(b"n", pack([1, 2]))
        cache.grow(self.lease, 6)
        cache.commit(self.lease, pack([1, 2, 7, 8]))
        self.leases = [self.lease]

    def check(self) -> None:
        check_cache(self.allocator, self.tree, self.leases)


def test_an_undamaged_cache_passes() -> None:
    World().check()


def leak(world: World) -> None:
    world.allocator.alloc(1)


def free_a_shared_slot(world: World) -> None:
    world.allocator.free([Extent(1, 1)])


def free_a_private_slot(world: World) -> None:
    world.allocator.free([world.lease.extents_for(5, 1)[0]])


def write_to_a_shared_slot(world: World) -> None:
    world.lease.extents = [*world.lease.extents_for(0, 5), Extent(3, 1)]


def forget_a_lease(world: World) -> None:
    world.leases = []


def lose_a_lock(world: World) -> None:
    world.tree.unlock(world.lease.node)


def lose_the_lock_of_a_split_head(world: World) -> None:
    world.lease.node.path()[0].locks -= 1


def keep_a_duplicate(world: World) -> None:
    world.lease.extents = [Extent(12, 4), *world.lease.extents_for(4, 2)]


def commit_the_wrong_tokens(world: World) -> None:
    world.lease.tokens = pack([1, 2, 7, 9])


def commit_more_than_there_is(world: World) -> None:
    world.lease.capacity = 3


def miscount(world: World) -> None:
    world.lease.node.extent = world.lease.node.extent.head(1)
    world.lease.node.edge = world.lease.node.edge[:4]


def tear_edge_from_extent(world: World) -> None:
    world.lease.node.edge += pack([5])


def read_another_namespace(world: World) -> None:
    world.lease.namespace = b"other"


def fall_out_of_the_tree(world: World) -> None:
    root = world.lease.node.path()[0].parent
    assert isinstance(root, RootNode)
    root.children.clear()


def hide_from_eviction(world: World) -> None:
    for node in next(world.tree.roots()).subtree():
        node.entry = 0


def use_a_child_after_its_parent(world: World) -> None:
    world.lease.node.last_used += 100


def adopt_under_the_wrong_token(world: World) -> None:
    root = next(world.tree.roots())
    root.children[pack([5])] = root.children.pop(pack([1]))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (leak, "I1: slots .* belong to nobody"),
        (free_a_shared_slot, "I1: .* overlaps"),
        (free_a_private_slot, "I1: .* overlaps"),
        (write_to_a_shared_slot, "I1: .* overlaps"),
        (forget_a_lease, "I5: .* 1 locks, but 0 leases"),
        (lose_a_lock, "I5: .* 0 locks, but 1 leases"),
        (lose_the_lock_of_a_split_head, "I5: .* fewer than its children"),
        (keep_a_duplicate, "I4: a lease reads"),
        (commit_the_wrong_tokens, "I7: the path of a lease does not spell"),
        (commit_more_than_there_is, "I3: "),
        (miscount, "I6: "),
        (tear_edge_from_extent, "I1: .* has an edge of 12 bytes"),
        (read_another_namespace, "I8: "),
        (fall_out_of_the_tree, "I6: "),
        (hide_from_eviction, "eviction cannot find it"),
        (use_a_child_after_its_parent, "used after its parent"),
        (adopt_under_the_wrong_token, "I7: .* not the child its parent knows"),
    ],
)
def test_damage_is_named(damage: Callable[[World], None], named: str) -> None:
    world = World()
    damage(world)
    with pytest.raises(IntegrityError, match=named):
        world.check()


def test_a_caller_can_tell_damage_from_its_own_mistakes() -> None:
    """An engine that meets it drops the cache and goes on, instead of dying."""
    assert issubclass(IntegrityError, RuntimeFault)


def test_released_leases_may_be_passed() -> None:
    world = World()
    cache = KvCache(world.allocator, world.tree)
    gone: Lease = cache.acquire(b"n", pack([1, 2, 3]))
    cache.release(gone)
    cache.check_integrity([world.lease, gone])


# -- labels, names, what is pruned


class Full:
    """Two labelled leaves, a pin, a published prefix with an overlay, a pruned running sequence."""

    def __init__(self) -> None:
        self.world = full_world.World(200)
        self.world.publish(list(range(100, 110)))
        self.world.whole(b"n", list(range(40)), Scope(session="s"))
        self.world.whole(b"n", [1, 2, 3], Scope(session="t"))
        self.world.pin(b"n", [0, 1], Scope(tenant="ann"), None)
        self.world.begin(b"n", [*range(100, 110), 1], Scope(public=full_world.PUBLIC))
        pruned = self.world.begin(b"m", [5] * 20)
        self.world.compute(pruned, 20)
        self.world.cache.prune(ByNamespace(b"m"))
        self.world.check()

    def leaf(self, first: int) -> Node:
        return self.world.tree.match(b"n", pack(range(first, first + 40))).node


def hide_a_hint(full: Full) -> None:
    node = full.leaf(0)
    owners, node.owners = node.owners, None  # queued as ordinary, and then its session is done
    full.world.tree.requeue(node)
    node.owners = owners
    next(iter(owners or ())).rank = 0


def forget_a_label(full: Full) -> None:
    full.leaf(0).owners = None


def invent_a_label(full: Full) -> None:
    node = full.leaf(0)
    next(iter(node.owners or ())).ends.clear()


def keep_the_end_of_an_evicted_leaf(full: Full) -> None:
    label = full.world.cache._labels.all()[0]
    label.ends[Node(b"", Extent(0, 0), None, 0, 0)] = None


def rename_a_block(full: Full) -> None:
    full.leaf(0).names[0] = b"x" * 32


def lose_a_name(full: Full) -> None:
    del full.leaf(0).names[-1]


def move_a_node(full: Full) -> None:
    full.leaf(0).start += 1


def unlock_a_pin(full: Full) -> None:
    full.world.tree.unlock(full.leaf(0).path()[0])


def unlock_a_base(full: Full) -> None:
    for root in full.world.tree.roots():
        if root.parent is not None:
            root.parent.locks -= 1


def unlock_what_is_condemned(full: Full) -> None:
    for node in full.world.tree.condemned():
        node.locks = 0


def keep_an_empty_root(full: Full) -> None:
    full.world.tree.own_root(b"nobody")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (hide_a_hint, "smaller key than the eviction queue knows"),
        (forget_a_label, "does not know a label that ends there"),
        (invent_a_label, "has an owner that does not know it"),
        (keep_the_end_of_an_evicted_leaf, "a label names a node that has left the tree"),
        (rename_a_block, "wrong names for its blocks"),
        (lose_a_name, "wrong names for its blocks"),
        (move_a_node, "starts at 3, not at 2"),
        (unlock_a_pin, "I5: "),
        (unlock_a_base, "I5: "),
        (unlock_what_is_condemned, "is condemned and unlocked"),
        (keep_an_empty_root, "is kept for nobody"),
    ],
)
def test_damage_of_the_rest_is_named(damage: Callable[[Full], None], named: str) -> None:
    full = Full()
    damage(full)
    with pytest.raises(IntegrityError, match=named):
        full.world.check()
