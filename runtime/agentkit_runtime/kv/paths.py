"""The part of the radix tree that knows roots, locks and labels, and counts what they protect."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from agentkit_runtime.kv.eviction import EvictionQueue
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.node import Node, Owner, RootNode
from agentkit_runtime.kv.outcome import Watcher
from agentkit_runtime.kv.policy import EvictionPolicy, PolicyName
from agentkit_runtime.kv.policy import policy as chosen
from agentkit_runtime.kv.tokens import TOKEN_BYTES


class LockedPaths:
    """Roots by name, and locks on the paths below them. See `tree.RadixTree`."""

    def __init__(
        self,
        clock: Callable[[], int] | None = None,
        *,
        policy: PolicyName | EvictionPolicy = "lru",
    ) -> None:
        self._clock = clock or itertools.count(1).__next__
        self._now = 0
        self._policy = chosen(policy)
        self._queue = EvictionQueue(self._policy.key)
        self._roots: dict[bytes, RootNode] = {}
        self._condemned: dict[Node, None] = {}
        self._released: list[Extent] = []
        self._watcher: Watcher | None = None
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

    @property
    def now(self) -> int:
        """Logical time of the last use."""
        return self._now

    def roots(self) -> Iterator[RootNode]:
        """The root of each namespace that has nodes or locks, in order of creation. Read only."""
        return iter(self._roots.values())

    def latest_roots(self) -> Iterator[RootNode]:
        """The same, the newest first."""
        return reversed(self._roots.values())

    @property
    def n_roots(self) -> int:
        """How many roots there are."""
        return len(self._roots)

    def root(self, name: bytes) -> RootNode | None:
        """The root of this name, if it is there."""
        return self._roots.get(name)

    def misplaced(self) -> list[Node]:
        """Leaves that the eviction queue would take too late: always none."""
        return self._queue.misplaced()

    def condemned(self) -> Iterator[Node]:
        """The tops of branches that were removed while locked. Read only."""
        return iter(self._condemned)

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of every change from now on. Raises ValueError when tokens are there."""
        if self.total_tokens:
            raise ValueError(
                f"the tree has {self.total_tokens!r} tokens already; watch it before its first use"
            )
        self._watcher = watcher

    def own_root(self, namespace: bytes) -> RootNode:
        """The namespace's own root; made when it is not there, and then to be used at once."""
        root = self._roots.get(namespace)
        if root is None:
            root = self._roots[namespace] = RootNode(namespace)
        return root

    def overlay(self, name: bytes, base: Node, owner: bytes) -> RootNode:
        """The root `name` for what namespace `owner` has behind `base`; made when it is not there.

        It keeps `base` locked for as long as it is there. Lock something below it, or itself,
        before anything else happens to the tree.
        """
        root = self._roots.get(name)
        if root is None:
            self.lock(base)
            root = self._roots[name] = RootNode(name, base=base, owner=owner)
        return root

    def lock(self, node: Node) -> None:
        """Protect `node` and the path to its root from eviction, until `unlock`. Locks count.

        Raises ValueError when the node has left the tree.
        """
        left = node.parent is None  # what is in the tree has a parent, or is a root
        if isinstance(node, RootNode):
            left = self._roots.get(node.namespace) is not node
        if left:
            raise ValueError(
                f"cannot lock the node at slots {node.extent!r}: it has left the tree; match again"
            )
        moved = 0
        step: Node | None = node
        while step is not None:
            if not step.locks:
                moved += step.extent.length
            step.locks += 1
            step = step.parent
        self._evictable -= moved
        self._protected += moved

    def unlock(self, node: Node) -> None:
        """Undo one `lock` of the same node. Raises ValueError when there is none."""
        if not node.locks:
            raise ValueError(f"unlock without lock of the node at slots {node.extent!r}")
        step: Node | None = node
        while step is not None:
            parent = step.parent
            step.locks -= 1
            if not step.locks:
                self._protected -= step.extent.length
                if step.condemned and step.edge:
                    self._bury(step)
                else:
                    self._evictable += step.extent.length
                    if not step.children:
                        self._settle(step)
            step = parent

    def move_lock(self, old: Node, new: Node) -> None:
        """Lock `new`, which lies below `old` or is it, and undo one lock of `old`."""
        step = new
        while step is not old:
            if not step.locks:
                self._evictable -= step.extent.length
                self._protected += step.extent.length
            step.locks += 1
            assert step.parent is not None, "the new node lies below the old one"
            step = step.parent

    def own(self, node: Node, owner: Owner) -> None:
        """Record that a sequence of `owner` ends at `node`."""
        _own(node, owner)
        self._queue.refresh(node)

    def requeue(self, node: Node) -> None:
        """The key of a node has fallen (see `policy`): find its place in the queue again."""
        self._queue.refresh(node)

    def take_released(self) -> list[Extent]:
        """The slots of condemned nodes whose last lock has gone since the last call."""
        released, self._released = self._released, []
        return released

    def _bury(self, node: Node) -> None:
        """A condemned node has lost its last lock, and so have all below it: it goes."""
        self._released.append(node.extent)
        if node in self._condemned:
            del self._condemned[node]
        else:
            assert node.parent is not None, "a condemned node keeps its parent to the end"
            del node.parent.children[node.edge[:TOKEN_BYTES]]
        node.parent = None

    def _settle(self, node: Node) -> None:
        """Queue a node that may have become an unlocked leaf; drop a root that nobody needs."""
        if node.is_evictable:
            self._queue.push(node)
        elif isinstance(node, RootNode) and not node.children and not node.locks:
            left = self._roots.pop(node.namespace, None)
            if left is not None and left.parent is not None:
                self.unlock(left.parent)  # an overlay holds its base


def disown(node: Node, heir: Node | None = None) -> None:
    """Take a node out of its owners' ends; `heir` takes its place there."""
    if node.owners:
        for owner in node.owners:
            owner.ends.pop(node, None)
            if heir is not None:
                _own(heir, owner)
    node.owners = None


def _own(node: Node, owner: Owner) -> None:
    if node.owners is None:
        node.owners = set()
    node.owners.add(owner)
    owner.ends[node] = None
