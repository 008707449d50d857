"""The radix tree: which token prefixes have KV, and in which slots.

A pure data structure. It knows no tensors and no free list: `insert` says which slots the caller
must free, `evict` and `clear` return the slots that nobody needs any more.

Each namespace has its own root, so a lookup cannot cross from one to another. A node owns exactly
one contiguous extent; tokens whose slots lie in several extents become a chain of nodes. On a split
the new node becomes the head, so a handle to the old node still ends where it ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.kv.extent import Extent, append_run, coalesce, differing, split, total
from agentkit_runtime.kv.node import Node, Owner, RootNode
from agentkit_runtime.kv.outcome import Insertion, Match, Removal
from agentkit_runtime.kv.paths import LockedPaths, disown
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.kv.tokens import TOKEN_BYTES, common_prefix, count, require_whole_tokens

__all__ = ["Insertion", "Match", "RadixTree", "Removal"]


class RadixTree(LockedPaths):
    """Prefixes of packed tokens, by namespace. For one thread.

    `clock` gives the logical time of each use and must never go backwards. `policy` says which
    unlocked leaf is evicted first.
    """

    def peek(self, namespace: bytes, tokens: bytes) -> int:
        """Length of the longest known prefix. Leaves no trace: no split, no use recorded."""
        require_whole_tokens(tokens)
        root = self._roots.get(namespace)
        return 0 if root is None else peek_below(root, tokens)

    def match(self, namespace: bytes, tokens: bytes) -> Match:
        """The longest known prefix; splits an edge so that a node ends there. Counts as a use.

        Where the root is an overlay, `tokens` must start with those of its base.
        """
        require_whole_tokens(tokens)
        self._now = now = self._clock()
        return self._descend(self.own_root(namespace), tokens, now, hit=1)

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
        self._now = now = self._clock()
        known = self._descend(self.own_root(namespace), tokens, now, hit=0)
        brought, new_runs = split(runs, known.length)
        node = known.node
        if new_runs:
            node = self._append(node, tokens[known.length * TOKEN_BYTES :], new_runs, holder)
            if self._watcher is not None:
                self._watcher.stored(node, tokens, known.length)
        return Insertion(node, coalesce(known.extents, new_runs), differing(brought, known.extents))

    def extend(
        self,
        holder: Node,
        tokens: bytes,
        extents: Sequence[Extent],
        *,
        owner: Owner | None = None,
    ) -> Insertion:
        """`insert` for who has `holder` locked: looks only at what is behind its end.

        `tokens` must start with those of the path to `holder`, which is not checked. `extents` are
        the slots of the tokens behind it, and so are those of the result. A leaf where others than
        `owner` ended sequences does not grow: their ends stay where they are.
        """
        self._now = now = self._clock()
        step: Node | None = holder
        while step is not None:
            step.last_used = now
            step = step.parent
        n_held = holder.end
        node, length, known = self._follow(holder, tokens, n_held * TOKEN_BYTES, [], now, 0)
        brought, new_runs = split(extents, length - n_held) if known else ([], extents)
        if new_runs:
            node = self._append(node, tokens[length * TOKEN_BYTES :], new_runs, holder, owner)
            if self._watcher is not None:
                self._watcher.stored(node, tokens, length)
        if not known:
            return Insertion(node, list(new_runs), [])
        return Insertion(node, coalesce(known, new_runs), differing(brought, known))

    def evict(self, n_tokens: int) -> list[Extent]:
        """Forget `n_tokens` unlocked tokens, or all there are; returns their slots.

        Leaves go first, in the order of the policy, each from its end: so a generated tail leaves
        before the prompt it hangs on.
        """
        freed: list[Extent] = []
        missing = n_tokens
        while missing > 0 and (leaf := self._queue.pop()) is not None:
            run = self._shorten(leaf, missing)
            missing -= run.length
            freed.append(run)
        return freed

    def join(self, node: Node) -> None:
        """Make one node of each part of the path to `node` that no longer needs to be several.

        That is where nobody holds a handle, nothing branches off or ended, the slots touch and the
        last use was the same: nothing that anybody can see changes.
        """
        if self._policy.counts_hits:
            return
        above = node.parent
        while above is not None:
            if (
                above.extent.end == node.extent.start
                and above.last_used == node.last_used
                and above.edge
                and not above.locks
                and not above.owners
                and len(above.children) == 1
            ):
                self._absorb(node, above)
            else:
                node = above
            above = node.parent

    def clear(self, namespace: bytes | None = None) -> list[Extent]:
        """Forget every unlocked node of one namespace, or of all; returns the slots.

        What a namespace has behind published prefixes is part of it.
        """
        freed: list[Extent] = []
        roots = [r for r in self._roots.values() if namespace in (None, r.owner, r.namespace)]
        for root in sorted(roots, key=lambda root: root.parent is None):  # overlays hold their base
            for node in self._locked(root):
                freed += self._detach_unlocked(node)
            self._settle(root)
        self._queue.clean()
        return freed

    def remove(self, top: Node) -> Removal:
        """Forget `top` and everything below it: what is unlocked now, the rest when it is unlocked.

        No lookup finds any of it from now on. Sequences that hold condemned nodes go on reading
        them; nothing can be inserted below.
        """
        parent = top.parent
        assert parent is not None, "a root cannot be removed"
        if not top.locks:
            freed = self._detach(top)
            self._settle(parent)
            return Removal(freed, 0)
        del parent.children[top.edge[:TOKEN_BYTES]]
        self._condemned[top] = None
        freed, n_condemned = [], 0
        for node in self._locked(top):
            self._condemn(node)
            n_condemned += node.extent.length
            freed += self._detach_unlocked(node)
        return Removal(freed, n_condemned)

    def _descend(self, root: RootNode, tokens: bytes, now: int, *, hit: int) -> Match:
        offset = 0
        extents: list[Extent] = []
        root.last_used = now
        if root.parent is not None:
            offset = root.start * TOKEN_BYTES
            extents = _use_base(root, now, hit)
        return self._follow(root, tokens, offset, extents, now, hit)

    def _follow(
        self, node: Node, tokens: bytes, offset: int, extents: list[Extent], now: int, hit: int
    ) -> Match:
        """Go down from `node`, which ends at byte `offset`; appends to `extents`."""
        n_bytes = len(tokens)
        while offset < n_bytes:
            child = node.children.get(tokens[offset : offset + TOKEN_BYTES])
            if child is None:
                break
            edge = child.edge
            if not tokens.startswith(edge, offset):
                child = self._split(child, common_prefix(tokens, offset, edge))
                edge = child.edge
            child.last_used = now
            child.hits += hit
            append_run(extents, child.extent)
            offset += len(edge)
            node = child
        return Match(node, offset // TOKEN_BYTES, extents)

    def _split(self, node: Node, n_tokens: int) -> Node:
        """Put a new node before `node` that takes its first `n_tokens` tokens; returns it."""
        parent = node.parent
        assert parent is not None, "only a node below a root has an edge to split"
        head = Node(
            node.edge[: n_tokens * TOKEN_BYTES],
            node.extent.head(n_tokens),
            parent,
            node.last_used,
            node.start,
        )
        head.locks = node.locks
        head.hits = node.hits
        node.edge = node.edge[n_tokens * TOKEN_BYTES :]
        node.extent = node.extent.tail(n_tokens)
        node.start += n_tokens
        if node.names:
            n_ended = node.start // BLOCK_TOKENS - head.start // BLOCK_TOKENS
            head.names, node.names = node.names[:n_ended], node.names[n_ended:]
        node.parent = head
        head.children[node.edge[:TOKEN_BYTES]] = node
        parent.children[head.edge[:TOKEN_BYTES]] = head
        return head

    def _absorb(self, node: Node, above: Node) -> None:
        """`node`, the only child of `above`, takes its tokens and its place."""
        parent = above.parent
        assert parent is not None, "only a node with tokens can be absorbed"
        node.edge = above.edge + node.edge
        node.extent = Extent(above.extent.start, above.extent.length + node.extent.length)
        node.start = above.start
        node.names = above.names + node.names
        node.parent = parent
        parent.children[node.edge[:TOKEN_BYTES]] = node
        above.children = {}
        above.parent = None
        self._queue.discard(above)

    def _append(
        self,
        node: Node,
        tokens: bytes,
        runs: Sequence[Extent],
        holder: Node | None,
        owner: Owner | None = None,
    ) -> Node:
        """Hang one node for each run below `node`, or grow `node`; returns the last one."""
        offset = 0
        for run in runs:
            edge = tokens[offset : offset + run.length * TOKEN_BYTES]
            offset += len(edge)
            if self._can_grow(node, run, holder, owner):
                node.edge += edge
                node.extent = Extent(node.extent.start, node.extent.length + run.length)
            else:
                child = Node(edge, run, node, node.last_used, node.end)
                node.children[edge[:TOKEN_BYTES]] = child
                node = child
            if node.locks:
                self._protected += run.length
            else:
                self._evictable += run.length
        self._settle(node)
        return node

    def _can_grow(self, node: Node, run: Extent, holder: Node | None, owner: Owner | None) -> bool:
        """Whether `node` can take `run` without moving the end of anybody else's handle.

        The only lock allowed is the caller's own, because the caller moves on to the new end.
        """
        return (
            not node.children
            and node.extent.end == run.start
            and node.locks == (1 if node is holder else 0)
            and bool(node.edge)
            and (not node.owners or node.owners == {owner})
            and not self._policy.counts_hits
        )

    def _shorten(self, leaf: Node, n_tokens: int) -> Extent:
        """Take up to `n_tokens` off the end of an unlocked leaf; an empty leaf leaves the tree."""
        n_kept = max(0, leaf.extent.length - n_tokens)
        if self._watcher is not None:
            self._watcher.removing(leaf, n_kept, evicted=True)
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
        if leaf.owners:
            disown(leaf, heir=parent if parent.edge else None)
            self._queue.refresh(parent)
        self._settle(parent)
        return freed

    def _detach(self, top: Node) -> list[Extent]:
        """Take an unlocked branch out; returns its slots."""
        parent = top.parent
        assert parent is not None, "a root cannot be taken out"
        del parent.children[top.edge[:TOKEN_BYTES]]
        branch = list(top.subtree())
        for node in branch:
            if self._watcher is not None:
                self._watcher.removing(node, 0, evicted=False)
            disown(node)
            self._evictable -= node.extent.length
            self._queue.discard(node)
        for node in branch:
            node.parent = None
        return [node.extent for node in branch]

    def _locked(self, top: Node) -> list[Node]:
        """`top` and the locked nodes below it."""
        return [node for node in top.subtree() if node.locks or node is top]

    def _detach_unlocked(self, node: Node) -> list[Extent]:
        """Take the unlocked branches below `node` out; returns their slots."""
        unlocked = [child for child in node.children.values() if not child.locks]
        return [run for child in unlocked for run in self._detach(child)]

    def _condemn(self, node: Node) -> None:
        if self._watcher is not None:
            self._watcher.removing(node, 0, evicted=False)
        disown(node)
        self._queue.discard(node)
        node.condemned = True


def peek_below(root: RootNode, tokens: bytes) -> int:
    """Length of the longest prefix known below `root`. Leaves no trace."""
    children = root.children
    offset = root.start * TOKEN_BYTES
    while offset < len(tokens):
        child = children.get(tokens[offset : offset + TOKEN_BYTES])
        if child is None:
            break
        if not tokens.startswith(child.edge, offset):
            return offset // TOKEN_BYTES + common_prefix(tokens, offset, child.edge)
        offset += len(child.edge)
        children = child.children
    return offset // TOKEN_BYTES


def _use_base(root: RootNode, now: int, hit: int) -> list[Extent]:
    """Record a use of the public part of an overlay; returns its slots."""
    base = root.parent
    assert base is not None, "an overlay has a base"
    runs: list[Extent] = []
    for node in base.upwards():
        node.last_used = now
        node.hits += hit
        if node.edge:
            runs.append(node.extent)
    return coalesce(reversed(runs))
