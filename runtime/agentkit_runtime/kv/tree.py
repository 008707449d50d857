"""The radix tree: which token prefixes have KV, and in which slots.

A pure data structure. It knows no tensors and no free list: `insert` says which slots the caller
must free, `evict` and `clear` return the slots that nobody needs any more.

Each namespace has its own root, so a lookup cannot cross from one to another. A node owns exactly
one contiguous extent; tokens whose slots lie in several extents become a chain of nodes. On a split
the new node becomes the head, so a handle to the old node still ends where it ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentkit_runtime.kv.extent import Extent, append_run, coalesce, differing, split, total
from agentkit_runtime.kv.node import EvictionQueue, Node, RootNode
from agentkit_runtime.kv.tokens import TOKEN_BYTES, common_prefix, count, require_whole_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The longest known prefix. Lock `node` before anything else happens to the tree."""

    node: Node
    """Ends exactly at `length`; the namespace's root when nothing matched."""
    length: int
    """Tokens."""
    extents: list[Extent]
    """The slots of these tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """Where inserted tokens ended up. Lock `node` before anything else happens to the tree."""

    node: Node
    """Ends exactly at the last inserted token."""
    extents: list[Extent]
    """The canonical slots of all inserted tokens."""
    duplicates: list[Extent]
    """Slots the caller brought for tokens that the tree already had in other slots.

    The caller still owns them: it must stop using them and then free them.
    """


class RadixTree:
    """Prefixes of packed tokens, by namespace. For one thread.

    `clock` gives the logical time of each use and must never go backwards.
    """

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or itertools.count(1).__next__
        self._roots: dict[bytes, RootNode] = {}
        self._queue = EvictionQueue()
        self._evictable = 0
        self._protected = 0

    @property
    def evictable_tokens(self) -> int:
        """Tokens in nodes that nobody has locked. `evict` can free all of them."""
        return self._evictable

    @property
    def protected_tokens(self) -> int:
        """Tokens in locked nodes."""
        return self._protected

    @property
    def total_tokens(self) -> int:
        """Tokens in the tree, which is the number of slots it owns."""
        return self._evictable + self._protected

    def roots(self) -> Iterator[RootNode]:
        """The root of each namespace that has nodes or locks, in order of creation. Read only."""
        return iter(self._roots.values())

    def peek(self, namespace: bytes, tokens: bytes) -> int:
        """Length of the longest known prefix. Leaves no trace: no split, no use recorded."""
        require_whole_tokens(tokens)
        node: Node | None = self._roots.get(namespace)
        offset = 0
        while node is not None and offset < len(tokens):
            node = node.children.get(tokens[offset : offset + TOKEN_BYTES])
            if node is None:
                break
            if not tokens.startswith(node.edge, offset):
                return offset // TOKEN_BYTES + common_prefix(tokens, offset, node.edge)
            offset += len(node.edge)
        return offset // TOKEN_BYTES

    def match(self, namespace: bytes, tokens: bytes) -> Match:
        """The longest known prefix; splits an edge so that a node ends there. Counts as a use."""
        require_whole_tokens(tokens)
        return self._descend(self._root(namespace), tokens, self._clock())

    def insert(
        self,
        namespace: bytes,
        tokens: bytes,
        extents: Sequence[Extent],
        *,
        holder: Node | None = None,
    ) -> Insertion:
        """Make `tokens`, whose KV lies in `extents`, known. Counts as a use of the whole path.

        The tree takes over the slots of the tokens it did not have. `holder` is the node that the
        caller has locked, once: a leaf that nobody else holds grows in place when the new slots
        follow its own. Raises ValueError unless there is one slot for each token.
        """
        require_whole_tokens(tokens)
        runs = coalesce(extents)
        if total(runs) != count(tokens):
            raise ValueError(
                f"insert needs one slot for each token, got {total(runs)!r} slots "
                f"for {count(tokens)!r} tokens"
            )
        now = self._clock()
        known = self._descend(self._root(namespace), tokens, now)
        brought, new_runs = split(runs, known.length)
        return Insertion(
            duplicates=differing(brought, known.extents),
            node=self._append(known.node, tokens[known.length * TOKEN_BYTES :], new_runs, holder),
            extents=coalesce(known.extents, new_runs),
        )

    def lock(self, node: Node) -> None:
        """Protect `node` and the path to its root from eviction, until `unlock`. Locks count.

        Raises ValueError when the node has left the tree.
        """
        path = list(_upwards(node))
        top = path[-1]
        if not isinstance(top, RootNode) or self._roots.get(top.namespace) is not top:
            raise ValueError(
                f"cannot lock the node at slots {node.extent!r}: it has left the tree; match again"
            )
        for step in path:
            if not step.locks:
                self._evictable -= step.extent.length
                self._protected += step.extent.length
            step.locks += 1

    def unlock(self, node: Node) -> None:
        """Undo one `lock` of the same node. Raises ValueError when there is none."""
        if not node.locks:
            raise ValueError(f"unlock without lock of the node at slots {node.extent!r}")
        for step in _upwards(node):
            step.locks -= 1
            if not step.locks:
                self._evictable += step.extent.length
                self._protected -= step.extent.length
                self._settle(step)

    def evict(self, n_tokens: int) -> list[Extent]:
        """Forget `n_tokens` unlocked tokens, or all there are; returns their slots.

        Leaves go first, the least recently used of them before the others, each from its end: so a
        generated tail leaves before the prompt it hangs on.
        """
        freed: list[Extent] = []
        missing = n_tokens
        while missing > 0 and (leaf := self._queue.pop()) is not None:
            run = self._shorten(leaf, missing)
            missing -= run.length
            freed.append(run)
        return freed

    def clear(self, namespace: bytes | None = None) -> list[Extent]:
        """Forget every unlocked node of one namespace, or of all; returns the slots."""
        freed: list[Extent] = []
        for root in [r for r in self._roots.values() if namespace in (None, r.namespace)]:
            for node in list(root.subtree()):
                for first, child in list(node.children.items()):
                    if not child.locks:
                        del node.children[first]
                        child.parent = None
                        self._evictable -= child.extent.length
                        freed.append(child.extent)
            self._settle(root)
        self._queue.discard_detached()
        return freed

    def _root(self, namespace: bytes) -> RootNode:
        root = self._roots.get(namespace)
        if root is None:
            root = self._roots[namespace] = RootNode(namespace)
        return root

    def _descend(self, root: RootNode, tokens: bytes, now: int) -> Match:
        node: Node = root
        offset = 0
        extents: list[Extent] = []
        root.last_used = now
        while offset < len(tokens):
            child = node.children.get(tokens[offset : offset + TOKEN_BYTES])
            if child is None:
                break
            if not tokens.startswith(child.edge, offset):
                child = self._split(child, common_prefix(tokens, offset, child.edge))
            child.last_used = now
            append_run(extents, child.extent)
            offset += len(child.edge)
            node = child
        return Match(node=node, length=offset // TOKEN_BYTES, extents=extents)

    def _split(self, node: Node, n_tokens: int) -> Node:
        """Put a new node before `node` that takes its first `n_tokens` tokens; returns it."""
        parent = node.parent
        assert parent is not None, "only a node below a root has an edge to split"
        head = Node(
            node.edge[: n_tokens * TOKEN_BYTES],
            node.extent.head(n_tokens),
            parent,
            node.last_used,
        )
        head.locks = node.locks
        node.edge = node.edge[n_tokens * TOKEN_BYTES :]
        node.extent = node.extent.tail(n_tokens)
        node.parent = head
        head.children[node.edge[:TOKEN_BYTES]] = node
        parent.children[head.edge[:TOKEN_BYTES]] = head
        return head

    def _append(self, node: Node, tokens: bytes, runs: list[Extent], holder: Node | None) -> Node:
        """Hang one node for each run below `node`, or grow `node`; returns the last one."""
        offset = 0
        for run in runs:
            edge = tokens[offset : offset + run.length * TOKEN_BYTES]
            offset += len(edge)
            if _can_grow(node, run, holder):
                node.edge += edge
                node.extent = Extent(node.extent.start, node.extent.length + run.length)
            else:
                child = Node(edge, run, node, node.last_used)
                node.children[edge[:TOKEN_BYTES]] = child
                node = child
            if node.locks:
                self._protected += run.length
            else:
                self._evictable += run.length
        self._settle(node)
        return node

    def _shorten(self, leaf: Node, n_tokens: int) -> Extent:
        """Take up to `n_tokens` off the end of an unlocked leaf; an empty leaf leaves the tree."""
        n_kept = max(0, leaf.extent.length - n_tokens)
        freed = leaf.extent.tail(n_kept)
        self._evictable -= freed.length
        if n_kept:
            leaf.edge = leaf.edge[: n_kept * TOKEN_BYTES]
            leaf.extent = leaf.extent.head(n_kept)
            self._settle(leaf)
            return freed
        parent = leaf.parent
        assert parent is not None, "the queue only gives nodes that are in the tree"
        del parent.children[leaf.edge[:TOKEN_BYTES]]
        leaf.parent = None
        self._settle(parent)
        return freed

    def _settle(self, node: Node) -> None:
        """Queue a node that may have become an unlocked leaf; drop a root that nobody needs."""
        if node.is_evictable:
            self._queue.push(node)
        elif isinstance(node, RootNode) and not node.children and not node.locks:
            self._roots.pop(node.namespace, None)


def _upwards(node: Node) -> Iterator[Node]:
    step: Node | None = node
    while step is not None:
        yield step
        step = step.parent


def _can_grow(node: Node, run: Extent, holder: Node | None) -> bool:
    """Whether `node` can take `run` without moving the end of anybody else's handle.

    The only lock allowed is the caller's own, because the caller moves on to the new end.
    """
    return (
        not node.children
        and node.parent is not None
        and node.extent.end == run.start
        and node.locks == (1 if node is holder else 0)
    )
