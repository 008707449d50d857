"""Checks of the invariants that hold between any two operations.

I1  every slot is free, or in the tree, or private to one lease: exactly one of these
I2  a lease reads only slots that it has locked or that are private to it
I3  only computed tokens are committed (here: a lease commits no more than it has slots for)
I4  a lease's committed positions lie in the tree's own slots, not in a duplicate
I5  lock counts are those of the leases, also after splits
I6  evictable + protected = all tokens of the tree
I7  every lease's node is still in the tree and ends where the lease ends
I8  a lease's node lies below the root of the lease's namespace
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.blocks import root_of
from agentkit_runtime.kv.extent import Extent, coalesce, drop, take, total
from agentkit_runtime.kv.labels import Label
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, chain, first_parent
from agentkit_runtime.kv.tokens import TOKEN_BYTES
from agentkit_runtime.kv.tree import RadixTree


class IntegrityError(RuntimeFault):
    """The cache's book-keeping contradicts itself: a bug. What it holds must not be used."""


def check_tree(tree: RadixTree) -> None:
    """Check the tree by itself. Raises IntegrityError."""
    evictable = protected = 0
    for root in tree.roots():
        _require(
            root.locks > 0 or bool(root.children),
            f"the root {root.namespace.hex()!r} is kept for nobody",
        )
    for node in _nodes(tree):
        _check_node(node)
        if node.locks:
            protected += node.extent.length
        else:
            evictable += node.extent.length
    _require(
        (evictable, protected) == (tree.evictable_tokens, tree.protected_tokens),
        f"I6: the nodes hold {evictable} evictable and {protected} protected tokens, the tree "
        f"counted {tree.evictable_tokens} and {tree.protected_tokens}",
    )
    _check_tiling([("tree", node.extent) for node in _nodes(tree)], n_slots=None)
    late = tree.misplaced()
    _require(not late, f"{len(late)} leaves have a smaller key than the eviction queue knows")


def check_names(tree: RadixTree) -> None:
    """Check the block names of a tree that is watched by a `BlockIndex`. Raises IntegrityError."""
    for root in tree.roots():
        public = b"".join(node.edge for node in root.path())
        pending: list[tuple[Node, bytes]] = [(root, public)]
        while pending:
            node, tokens = pending.pop()
            names = chain(first_parent(root.owner), tokens)[node.start // BLOCK_TOKENS :]
            _require(
                node is root or node.names == names,
                f"the node at slots {node.extent!r} has wrong names for its blocks",
            )
            pending += [(child, tokens + child.edge) for child in node.children.values()]


def check_cache(
    allocator: SlotAllocator,
    tree: RadixTree,
    leases: Sequence[Lease],
    *,
    held: Sequence[Node] = (),
) -> None:
    """Check tree, free list and all active leases together. Raises IntegrityError.

    `held` are the nodes that pins, published prefixes and restores have locked.
    """
    check_tree(tree)
    for lease in leases:
        _check_lease(tree, lease)
    _check_locks(tree, [*(lease.node for lease in leases), *held])
    free = list(allocator.free_runs())
    _require(
        total(free) == allocator.free_slots,
        f"I1: {total(free)} slots in free runs, but {allocator.free_slots} counted",
    )
    owners = [("free", run) for run in free]
    owners += [("tree", node.extent) for node in _nodes(tree)]
    owners += [
        (f"lease {index}", run)
        for index, lease in enumerate(leases)
        for run in drop(lease.extents, lease.committed)
    ]
    _check_tiling(owners, n_slots=allocator.n_slots)


def check_labels(labels: Sequence[Label], tree: RadixTree) -> None:
    """Check that labels and nodes know each other. Raises IntegrityError."""
    ends = {node for label in labels for node in label.ends}
    nodes = {node for root in tree.roots() for node in root.subtree() if node.edge}
    _require(ends <= nodes, "a label names a node that has left the tree")
    for label in labels:
        for node in label.ends:
            _require(
                node.owners is not None and label in node.owners,
                f"node at slots {node.extent!r} does not know a label that ends there",
            )
    for node in nodes:
        _require(
            all(node in owner.ends for owner in node.owners or ()),
            f"node at slots {node.extent!r} has an owner that does not know it",
        )


def _nodes(tree: RadixTree) -> list[Node]:
    """All nodes with tokens, condemned ones last."""
    tops = [*tree.roots(), *tree.condemned()]
    return [node for top in tops for node in top.subtree() if node.edge]


def _check_node(node: Node) -> None:
    where = f"node at slots {node.extent!r}"
    parent = node.parent
    known = parent is not None and parent.children.get(node.edge[:TOKEN_BYTES]) is node
    _require(
        known or (node.condemned and parent is not None),
        f"I7: {where} is not the child its parent knows",
    )
    assert parent is not None
    _require(node.locks > 0 or not node.condemned, f"{where} is condemned and unlocked")
    _require(node.start == parent.end, f"{where} starts at {node.start}, not at {parent.end}")
    _require(
        0 < len(node.edge) == node.extent.length * TOKEN_BYTES,
        f"I1: {where} has an edge of {len(node.edge)} bytes",
    )
    _require(
        node.locks >= sum(child.locks for child in node.children.values()),
        f"I5: {where} has {node.locks} locks, fewer than its children together",
    )
    _require(parent.last_used >= node.last_used, f"{where} was used after its parent")
    _require(
        node.entry > 0 or not node.is_evictable, f"{where} is evictable but eviction cannot find it"
    )


def _check_lease(tree: RadixTree, lease: Lease) -> None:
    path = lease.node.path()
    root = root_of(lease.node)
    _require(
        root is tree.root(lease.root) and root.owner == lease.namespace,
        f"I8: a lease of namespace {lease.namespace.hex()!r} is not below that root",
    )
    _require(
        b"".join(node.edge for node in path) == lease.tokens,
        f"I7: the path of a lease does not spell its {lease.committed} committed tokens",
    )
    _require(
        total(lease.extents) == lease.capacity >= lease.committed,
        f"I3: a lease with {total(lease.extents)} slots has capacity {lease.capacity} and "
        f"{lease.committed} committed tokens",
    )
    canonical = coalesce(node.extent for node in path)
    _require(
        coalesce(take(lease.extents, lease.committed)) == canonical,
        f"I4: a lease reads {lease.extents!r}, its committed tokens lie in {canonical!r}",
    )


def _check_locks(tree: RadixTree, held: Sequence[Node]) -> None:
    expected: Counter[Node] = Counter()
    bases = [root.parent for root in tree.roots() if root.parent is not None]
    for node in [*held, *bases]:
        expected.update(node.upwards())
    for node in [*tree.roots(), *_nodes(tree)]:
        _require(
            node.locks == expected[node],
            f"I5: node at slots {node.extent!r} has {node.locks} locks, but {expected[node]} "
            "leases, pins and others hold it",
        )


def _check_tiling(owners: list[tuple[str, Extent]], *, n_slots: int | None) -> None:
    """No slot twice, and with `n_slots` also none missing."""
    reached = 0
    holder = "start of the pool"
    for name, run in sorted(owners, key=lambda owner: owner[1]):
        _require(run.start >= reached, f"I1: {run!r} of {name} overlaps that of {holder}")
        _require(
            n_slots is None or run.start == reached,
            f"I1: slots {reached} to {run.start} belong to nobody",
        )
        reached, holder = run.end, name
    _require(
        n_slots is None or reached == n_slots,
        f"I1: slots end at {reached}, the pool at {n_slots}",
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise IntegrityError(message)
