from __future__ import annotations

import gc
import heapq
import itertools
import sys
from types import FrameType

import pytest

from agentkit_runtime.kv.extent import Extent, total
from agentkit_runtime.kv.integrity import check_tree
from agentkit_runtime.kv.node import Node, RootNode
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree


def test_a_prefix_matches_at_any_token() -> None:
    tree = RadixTree()
    tree.insert(b"n", pack([1, 2, 3, 4, 5]), [Extent(10, 5)])
    for length in range(6):
        match = tree.match(b"n", pack([*range(1, length + 1), 9]))
        assert match.length == length
        assert total(match.extents) == length
        assert match.extents == ([Extent(10, length)] if length else [])
    check_tree(tree)


def test_peek_agrees_with_match_and_splits_nothing() -> None:
    tree = RadixTree(clock=(ticks := itertools.count(1)).__next__)
    tree.insert(b"n", pack([1, 2, 3, 4]), [Extent(0, 4)])
    assert tree.peek(b"n", pack([1, 2, 9])) == 2
    assert tree.peek(b"n", pack([1, 2])) == 2
    assert tree.peek(b"n", pack([9])) == 0
    assert tree.peek(b"n", b"") == 0
    assert tree.peek(b"other", pack([1, 2])) == 0
    assert [root.namespace for root in tree.roots()] == [b"n"]
    assert len(next(tree.roots()).children) == 1
    assert len(tree.match(b"n", pack([1, 2, 3, 4])).node.path()) == 1
    assert next(ticks) == 3, "peek must not count as a use"


def test_a_split_leaves_deep_handles_valid_and_locks_the_new_head() -> None:
    """R4. Fault: after a split the evictable size went negative because the head had no lock."""
    tree = RadixTree()
    deep = tree.insert(b"n", pack([1, 2, 3, 4, 5, 6]), [Extent(0, 6)]).node
    tree.lock(deep)
    for length in (5, 2, 4, 1, 3):
        tree.match(b"n", pack([1, 2, 3, 4, 5, 6][:length]))
        check_tree(tree)
    path = deep.path()
    assert [node.extent for node in path] == [Extent(slot, 1) for slot in range(6)]
    assert path[-1] is deep
    assert [node.locks for node in path] == [1] * 6
    assert (tree.evictable_tokens, tree.protected_tokens) == (0, 6)
    assert tree.evict(6) == []
    tree.unlock(deep)
    assert (tree.evictable_tokens, tree.protected_tokens) == (6, 0)
    assert all(node.locks == 0 for node in path)
    assert total(tree.evict(6)) == 6


def test_slots_in_several_extents_become_a_chain() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1, 2, 3, 4]), [Extent(8, 2), Extent(0, 1), Extent(1, 1)]).node
    assert [step.extent for step in node.path()] == [Extent(8, 2), Extent(0, 2)]
    assert tree.match(b"n", pack([1, 2, 3, 4])).extents == [Extent(8, 2), Extent(0, 2)]
    check_tree(tree)


def test_what_the_tree_had_in_other_slots_is_reported_as_duplicate() -> None:
    tree = RadixTree()
    tree.insert(b"n", pack([1, 2, 3]), [Extent(0, 3)])
    insertion = tree.insert(b"n", pack([1, 2, 3, 4]), [Extent(0, 1), Extent(20, 3)])
    assert insertion.duplicates == [Extent(20, 2)]
    assert insertion.extents == [Extent(0, 3), Extent(22, 1)]
    assert tree.total_tokens == 4
    check_tree(tree)


def test_inserting_the_tree_s_own_slots_again_is_no_duplicate() -> None:
    tree = RadixTree()
    tokens = pack([1, 2, 3, 4])
    first = tree.insert(b"n", tokens, [Extent(5, 2), Extent(0, 2)])
    again = tree.insert(b"n", tokens, first.extents)
    assert again.duplicates == []
    assert again.node is first.node
    assert tree.total_tokens == 4


def test_insert_needs_one_slot_for_each_token() -> None:
    with pytest.raises(ValueError, match="got 2 slots for 3 tokens"):
        RadixTree().insert(b"n", pack([1, 2, 3]), [Extent(0, 2)])


@pytest.mark.parametrize("operation", ["match", "peek"])
def test_half_a_token_is_refused(operation: str) -> None:
    with pytest.raises(ValueError, match="multiple of 4 bytes"):
        getattr(RadixTree(), operation)(b"n", b"\0" * 5)


# -- growing in place


def test_a_leaf_that_only_the_caller_holds_grows_in_place() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1, 2]), [Extent(4, 2)]).node
    tree.lock(node)
    grown = tree.insert(b"n", pack([1, 2, 3]), [Extent(4, 3)], holder=node).node
    assert grown is node
    assert node.extent == Extent(4, 3)
    assert (tree.evictable_tokens, tree.protected_tokens) == (0, 3)
    check_tree(tree)


def test_a_leaf_that_another_sequence_holds_does_not_grow() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1, 2]), [Extent(4, 2)]).node
    tree.lock(node)
    tree.lock(node)
    longer = tree.insert(b"n", pack([1, 2, 3]), [Extent(4, 3)], holder=node).node
    assert longer.parent is node
    assert node.extent == Extent(4, 2)
    check_tree(tree)


def test_a_caller_without_the_lock_does_not_grow_a_locked_leaf() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1, 2]), [Extent(4, 2)]).node
    tree.lock(node)
    assert tree.insert(b"n", pack([1, 2, 3]), [Extent(4, 3)]).node is not node


def test_a_leaf_does_not_grow_over_a_gap_or_past_its_children() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1, 2]), [Extent(4, 2)]).node
    gap = tree.insert(b"n", pack([1, 2, 3]), [Extent(4, 2), Extent(7, 1)]).node
    assert gap.parent is node
    sibling = tree.insert(b"n", pack([1, 2, 8]), [Extent(4, 3)]).node
    assert sibling.parent is node
    assert node.extent == Extent(4, 2)
    check_tree(tree)


# -- chains become one node again


def branched() -> tuple[RadixTree, Node]:
    """A sequence of six tokens, split at three by another one, which has left."""
    tree = RadixTree()
    leaf = tree.insert(b"n", pack([1, 2, 3, 4, 5, 6]), [Extent(0, 6)]).node
    tree.insert(b"n", pack([1, 2, 3, 9]), [Extent(0, 3), Extent(50, 1)])
    tree.match(b"n", pack([1, 2, 3, 4, 5, 6]))
    assert tree.evict(1) == [Extent(50, 1)]
    return tree, leaf


def test_a_split_that_nobody_needs_any_more_is_undone() -> None:
    tree, leaf = branched()
    assert len(leaf.path()) == 2
    tree.join(leaf)
    assert [(node.extent, node.start) for node in leaf.path()] == [(Extent(0, 6), 0)]
    assert tree.match(b"n", pack([1, 2, 3, 4, 5, 6])).node is leaf
    check_tree(tree)
    assert tree.evict(4) == [Extent(2, 4)]


def test_parts_that_were_used_at_different_times_stay_apart() -> None:
    tree, leaf = branched()
    tree.match(b"n", pack([1, 2, 3]))
    tree.join(leaf)
    assert len(leaf.path()) == 2
    tree.match(b"n", pack([1, 2, 3, 4, 5, 6]))
    tree.join(leaf)
    assert len(leaf.path()) == 1


def test_a_part_that_somebody_holds_stays_apart() -> None:
    tree, leaf = branched()
    head = tree.match(b"n", pack([1, 2, 3])).node
    tree.lock(head)
    tree.match(b"n", pack([1, 2, 3, 4, 5, 6]))
    tree.join(leaf)
    assert leaf.path() == [head, leaf]
    tree.unlock(head)
    tree.join(leaf)
    assert leaf.path() == [leaf]


# -- locks and eviction


def test_a_locked_node_and_its_path_survive_any_eviction() -> None:
    """R2. Fault: the walk that locked the path skipped the matched node itself."""
    tree = RadixTree()
    tree.insert(b"n", pack([1, 2, 3, 4]), [Extent(0, 4)])
    leaf = tree.match(b"n", pack([1, 2, 3])).node
    tree.lock(leaf)
    assert tree.evict(100) == [Extent(3, 1)]
    assert tree.peek(b"n", pack([1, 2, 3, 4])) == 3
    tree.unlock(leaf)
    assert total(tree.evict(100)) == 3
    assert tree.total_tokens == 0


def test_a_node_stays_locked_until_the_last_lock_is_gone() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1]), [Extent(0, 1)]).node
    tree.lock(node)
    tree.lock(node)
    tree.unlock(node)
    assert tree.evict(1) == []
    tree.unlock(node)
    assert tree.evict(1) == [Extent(0, 1)]


def test_unlocking_what_is_not_locked_is_refused() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1]), [Extent(7, 1)]).node
    with pytest.raises(ValueError, match=r"unlock without lock.*start=7"):
        tree.unlock(node)
    assert (tree.evictable_tokens, tree.protected_tokens) == (1, 0)


def test_locking_a_node_that_was_evicted_is_refused() -> None:
    tree = RadixTree()
    node = tree.insert(b"n", pack([1]), [Extent(7, 1)]).node
    tree.insert(b"n", pack([2]), [Extent(8, 1)])
    assert tree.evict(1) == [Extent(7, 1)]
    with pytest.raises(ValueError, match="has left the tree; match again"):
        tree.lock(node)
    assert (tree.evictable_tokens, tree.protected_tokens) == (1, 0)


def test_the_least_recently_used_leaf_leaves_first() -> None:
    tree = RadixTree()
    for token in (1, 2, 3):
        tree.insert(b"n", pack([token, token]), [Extent(10 * token, 2)])
    tree.match(b"n", pack([1, 1]))
    assert tree.evict(2) == [Extent(20, 2)]
    assert tree.evict(2) == [Extent(30, 2)]
    assert tree.evict(2) == [Extent(10, 2)]


def test_a_generated_tail_leaves_before_the_prompt_it_hangs_on() -> None:
    tree = RadixTree()
    prompt = tree.insert(b"n", pack([1, 2, 3]), [Extent(0, 3)]).node
    tree.lock(prompt)
    tree.insert(b"n", pack([1, 2, 3, 7, 8]), [Extent(0, 5)], holder=prompt)
    tree.unlock(prompt)
    assert total(tree.evict(2)) == 2
    assert tree.peek(b"n", pack([1, 2, 3, 7, 8])) == 3


def test_eviction_takes_no_more_than_asked_and_from_the_end_of_a_leaf() -> None:
    tree = RadixTree()
    tree.insert(b"n", pack(range(100)), [Extent(0, 100)])
    assert tree.evict(30) == [Extent(70, 30)]
    assert tree.evict(1) == [Extent(69, 1)]
    assert tree.peek(b"n", pack(range(100))) == 69
    check_tree(tree)


def test_a_parent_leaves_only_after_all_its_children() -> None:
    tree = RadixTree()
    tree.insert(b"n", pack([1, 2]), [Extent(0, 2)])
    tree.insert(b"n", pack([1, 3]), [Extent(0, 1), Extent(5, 1)])
    order = [tree.evict(1) for _ in range(3)]
    assert order == [[Extent(1, 1)], [Extent(5, 1)], [Extent(0, 1)]]
    assert tree.evict(1) == []


def test_evicting_one_token_costs_the_same_with_fifty_thousand_leaves() -> None:
    """R10. Fault: each eviction scanned all leaves, 7 ms. Counted in calls, not in time."""
    assert calls_of_evictions(n_leaves=50_000) == calls_of_evictions(n_leaves=500)


def calls_of_evictions(n_leaves: int) -> int:
    """Python and C calls made by 200 evictions of one token."""
    tree = RadixTree()
    for leaf in range(n_leaves):
        tree.insert(b"n", pack([leaf % 100, leaf]), [Extent(2 * leaf, 2)])
    n_calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for _ in range(200):
            tree.evict(1)
    finally:
        sys.setprofile(None)
    assert tree.total_tokens > 0
    return n_calls


def test_stale_entries_of_the_eviction_queue_are_paid_once_by_each_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_leaves, n_uses = 2_000, 10
    tree = RadixTree()
    for leaf in range(n_leaves):
        tree.insert(b"n", pack([leaf]), [Extent(leaf, 1)])
    for _ in range(n_uses):
        for leaf in range(n_leaves):
            node = tree.match(b"n", pack([leaf])).node
            tree.lock(node)
            tree.unlock(node)
    pops = 0

    def counted(heap: list[tuple[int, int, Node]]) -> tuple[int, int, Node]:
        nonlocal pops
        pops += 1
        return original(heap)

    original = heapq.heappop
    monkeypatch.setattr(heapq, "heappop", counted)
    freed = [tree.evict(1)[0].start for _ in range(n_leaves)]
    assert freed == list(range(n_leaves)), "evicted in order of use"
    assert pops <= 2 * n_leaves, "uses between two evictions leave at most one stale entry a leaf"


def test_a_chain_of_ten_thousand_nodes_needs_no_recursion() -> None:
    tree = RadixTree()
    n_tokens = 10_000
    extents = [Extent(2 * position, 1) for position in range(n_tokens)]
    node = tree.insert(b"n", pack(range(n_tokens)), extents).node
    tree.lock(node)
    tree.unlock(node)
    check_tree(tree)
    assert total(tree.evict(10)) == 10
    assert total(tree.clear()) == n_tokens - 10


# -- namespaces


def test_no_lookup_crosses_a_namespace() -> None:
    tree = RadixTree()
    tokens = pack([1, 2, 3])
    tree.insert(b"a", tokens, [Extent(0, 3)])
    tree.insert(b"b", tokens, [Extent(3, 3)])
    assert tree.match(b"a", tokens).extents == [Extent(0, 3)]
    assert tree.match(b"b", tokens).extents == [Extent(3, 3)]
    assert tree.clear(b"a") == [Extent(0, 3)]
    assert (tree.peek(b"a", tokens), tree.peek(b"b", tokens)) == (0, 3)


def test_a_namespace_without_tokens_and_locks_keeps_no_root() -> None:
    """A server sees unboundedly many tenants and key epochs."""
    tree = RadixTree()
    node = tree.match(b"seen once", pack([1])).node
    tree.lock(node)
    assert len(list(tree.roots())) == 1
    tree.unlock(node)
    assert list(tree.roots()) == []
    tree.insert(b"a", pack([1]), [Extent(0, 1)])
    tree.evict(1)
    assert list(tree.roots()) == []


def test_cleared_nodes_are_garbage() -> None:
    """A tenant whose prefixes are dropped must not stay in memory through the eviction queue."""

    def n_nodes() -> int:
        gc.collect()
        return sum(type(thing) in (Node, RootNode) for thing in gc.get_objects())

    before = n_nodes()
    tree = RadixTree()
    for leaf in range(1_000):
        tree.insert(b"n", pack([leaf]), [Extent(leaf, 1)])
    assert n_nodes() >= before + 1_000
    assert total(tree.clear(b"n")) == 1_000
    assert n_nodes() == before
    assert tree.total_tokens == 0


def test_clear_keeps_what_is_locked() -> None:
    tree = RadixTree()
    tree.insert(b"n", pack([1, 2, 3]), [Extent(0, 3)])
    tree.insert(b"n", pack([1, 2, 8, 9]), [Extent(0, 2), Extent(5, 2)])
    node = tree.match(b"n", pack([1, 2, 3])).node
    tree.lock(node)
    assert tree.clear() == [Extent(5, 2)]
    assert tree.peek(b"n", pack([1, 2, 3])) == 3
    assert (tree.evictable_tokens, tree.protected_tokens) == (0, 3)
    tree.unlock(node)
    assert total(tree.clear()) == 3
    check_tree(tree)


# -- overlays


def test_an_overlay_goes_on_from_its_base_and_holds_it() -> None:
    tree = RadixTree()
    base = tree.insert(b"public", pack([1, 2, 3]), [Extent(0, 3)]).node
    tree.overlay(b"mine", base, b"me")
    tree.insert(b"mine", pack([1, 2, 3, 4, 5]), [Extent(0, 3), Extent(8, 2)])
    assert tree.match(b"mine", pack([1, 2, 3, 4])).extents == [Extent(0, 3), Extent(8, 1)]
    assert tree.peek(b"public", pack([1, 2, 3, 4])) == 3
    check_tree(tree)
    assert total(tree.evict(10)) == 5, "first what hangs on it, then the base"
    assert list(tree.roots()) == []


def test_clear_takes_overlays_before_what_they_hold() -> None:
    tree = RadixTree()
    base = tree.insert(b"public", pack([1, 2, 3]), [Extent(0, 3)]).node
    tree.overlay(b"mine", base, b"me")
    tree.insert(b"mine", pack([1, 2, 3, 4, 5]), [Extent(0, 3), Extent(8, 2)])
    assert total(tree.clear()) == 5
    assert list(tree.roots()) == []


def test_moving_a_lock_is_locking_and_unlocking() -> None:
    tree = RadixTree()
    top = tree.insert(b"n", pack([1, 2]), [Extent(0, 2)]).node
    tree.lock(top)
    done = tree.extend(top, pack([1, 2, 3, 4]), [Extent(8, 2)])
    assert (done.extents, done.duplicates) == ([Extent(8, 2)], [])
    tree.move_lock(top, done.node)
    assert [node.locks for node in done.node.path()] == [1, 1]
    assert (tree.evictable_tokens, tree.protected_tokens) == (0, 4)
    tree.unlock(done.node)
    assert tree.evictable_tokens == 4
    check_tree(tree)


def test_extending_reports_what_the_tree_got_meanwhile() -> None:
    tree = RadixTree()
    top = tree.insert(b"n", pack([1, 2]), [Extent(0, 2)]).node
    tree.lock(top)
    tree.insert(b"n", pack([1, 2, 3]), [Extent(0, 2), Extent(5, 1)])
    done = tree.extend(top, pack([1, 2, 3, 4]), [Extent(8, 2)])
    assert done.duplicates == [Extent(8, 1)]
    assert done.extents == [Extent(5, 1), Extent(9, 1)]
    check_tree(tree)
