from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from agentkit_runtime.kv.extent import Extent, total
from agentkit_runtime.kv.integrity import check_tree
from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.policy import PolicyName
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree


def use(tree: RadixTree, tokens: list[int], slot: int) -> int:
    """Match, and insert what was missing; returns the next free slot."""
    known = tree.match(b"n", pack(tokens))
    missing = len(tokens) - known.length
    tree.insert(b"n", pack(tokens), [*known.extents, Extent(slot, missing)])
    return slot + missing


def order(policy: PolicyName, uses: str) -> str:
    """In which order one-token prompts leave after these uses."""
    tree = RadixTree(policy=policy)
    for slot, name in enumerate(uses):
        use(tree, [ord(name)], slot)
    names: str = ""
    while tree.total_tokens:
        left = {
            chr(edge[0])
            for root in tree.roots()
            for edge in (n.edge for n in root.subtree())
            if edge
        }
        tree.evict(1)
        now = {
            chr(edge[0])
            for root in tree.roots()
            for edge in (n.edge for n in root.subtree())
            if edge
        }
        names += (left - now).pop()
    return names


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("lru", "cabd"), ("hints", "cabd"), ("lfu", "dcba"), ("slru", "dcab")],
)
def test_each_policy_has_its_own_order(policy: PolicyName, expected: str) -> None:
    assert order(policy, "ccaabbaabd") == expected


def test_use_counts_requests_not_tokens_or_chunks() -> None:
    tree = RadixTree(policy="lfu")
    held = tree.match(b"n", pack([1])).node
    tree.lock(held)
    for end in range(1, 5):  # one request, computed in four chunks
        node = tree.extend(held, pack([1] * end), [Extent(end, 1)]).node
        tree.move_lock(held, node)
        held = node
    tree.unlock(held)
    slot = use(tree, [2], 10)
    use(tree, [2], slot)
    assert [node.hits for node in held.path()] == [1, 1, 1, 1]
    assert total(tree.evict(4)) == 4
    assert tree.peek(b"n", pack([2])) == 1


def test_lru_of_whole_paths_is_plain_lru_of_blocks() -> None:
    """One token stands for a block, as in replays of traces."""
    rng = random.Random(3)
    tree = RadixTree()
    blocks: OrderedDict[tuple[int, ...], None] = OrderedDict()
    capacity, slot, hits, expected = 40, 0, 0, 0
    for _ in range(3_000):
        prompt = [rng.randrange(3) for _ in range(rng.randrange(1, 9))]
        prefixes = [tuple(prompt[: end + 1]) for end in range(len(prompt))]
        known = 0
        while known < len(prefixes) and prefixes[known] in blocks:
            known += 1
        expected += known
        hits += tree.match(b"n", pack(prompt)).length
        slot = use(tree, prompt, slot)
        for prefix in reversed(prefixes):  # the deepest is the oldest of one use
            blocks[prefix] = None
            blocks.move_to_end(prefix)
        while len(blocks) > capacity:
            blocks.popitem(last=False)
        tree.evict(max(0, tree.total_tokens - capacity))
        assert tree.total_tokens == len(blocks)
    assert hits == expected
    check_tree(tree)


def test_a_policy_of_one_s_own_can_be_given() -> None:
    class Longest:
        counts_hits = False

        def key(self, node: Node) -> int:
            return -node.extent.length

    tree = RadixTree(policy=Longest())
    tree.insert(b"n", pack([1]), [Extent(0, 1)])
    tree.insert(b"n", pack([2, 2, 2]), [Extent(1, 3)])
    assert tree.evict(1) == [Extent(3, 1)]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(
        ValueError, match="must be 'lru', 'lfu', 'slru', 'hints' or an EvictionPolicy, got 'mru'"
    ):
        RadixTree(policy="mru")  # type: ignore[arg-type]
