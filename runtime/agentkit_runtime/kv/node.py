"""Nodes of the radix tree, and the queue that knows which of them leaves first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

from agentkit_runtime.kv.extent import Extent


class Node:
    """A run of tokens whose KV lies in one contiguous extent of slots.

    Only the tree writes a node. A caller may keep one as a handle as long as it holds a lock on it:
    it then ends at the same position for ever, however often it is split above.
    """

    __slots__ = ("children", "edge", "extent", "last_used", "locks", "parent", "queued")

    def __init__(self, edge: bytes, extent: Extent, parent: Node | None, last_used: int) -> None:
        self.edge = edge
        """The tokens, packed; empty only in a root."""
        self.extent = extent
        """One slot for each token of `edge`."""
        self.parent = parent
        """None in a root, and in a node that has left the tree."""
        self.children: dict[bytes, Node] = {}
        """By the first token of their edges."""
        self.locks = 0
        """Running sequences that read this node: those locked here or anywhere below."""
        self.last_used = last_used
        """Logical time; never less than that of a child."""
        self.queued = False
        """The eviction queue has an entry for this node."""

    @property
    def is_evictable(self) -> bool:
        """An unlocked leaf that is still in the tree."""
        return not self.children and not self.locks and self.parent is not None

    def path(self) -> list[Node]:
        """The nodes from below the root down to this one. A root has an empty path."""
        upwards = []
        node = self
        while node.parent is not None:
            upwards.append(node)
            node = node.parent
        return upwards[::-1]

    def subtree(self) -> Iterator[Node]:
        """This node and everything below it, parents first. Not recursive: chains grow long."""
        pending = [self]
        while pending:
            node = pending.pop()
            pending.extend(node.children.values())
            yield node


class RootNode(Node):
    """The empty prefix of one namespace."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: bytes) -> None:
        super().__init__(b"", Extent(0, 0), None, 0)
        self.namespace = namespace


class EvictionQueue:
    """Unlocked leaves, least recently used first.

    A heap that is repaired only when something is taken out. Each node has at most one entry, so
    the heap never outgrows the tree. An entry's time is at most the node's own, so the first entry
    whose time is still true is the exact minimum.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Node]] = []
        self._serial = itertools.count()

    def push(self, node: Node) -> None:
        """Enter a node that has just become an unlocked leaf. Does nothing if it has an entry."""
        if not node.queued:
            node.queued = True
            heapq.heappush(self._heap, (node.last_used, next(self._serial), node))

    def pop(self) -> Node | None:
        """Take out the unlocked leaf that was used longest ago; None when there is none."""
        while self._heap:
            entered, _, node = heapq.heappop(self._heap)
            node.queued = False
            if not node.is_evictable:
                continue
            if entered == node.last_used:
                return node
            self.push(node)
        return None

    def discard_detached(self) -> None:
        """Forget nodes that have left the tree, so that they can be freed."""
        self._heap = [entry for entry in self._heap if entry[2].parent is not None]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)
