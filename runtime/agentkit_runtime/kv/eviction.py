"""The queue that knows which unlocked leaf leaves first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from agentkit_runtime.kv.node import Node

_MIN_VOID = 64
"""Void entries that are not worth a clean-up."""


class EvictionQueue:
    """Unlocked leaves, smallest key first.

    A heap that is repaired only when something is taken out. Each node has at most one valid entry,
    and void ones are cleaned up before they outnumber the others. A valid entry's key is at most
    the node's own, so the first entry whose key is still true is the exact minimum.
    """

    def __init__(self, key: Callable[[Node], Any]) -> None:
        self._key = key
        self._heap: list[tuple[Any, int, Node]] = []
        self._serial = itertools.count(1)
        self._n_void = 0

    def push(self, node: Node) -> None:
        """Enter a node that has just become an unlocked leaf. Does nothing if it has an entry."""
        if not node.entry:
            self._enter(node)

    def refresh(self, node: Node) -> None:
        """Enter a queued node anew, because its key has fallen."""
        if node.entry:
            self.discard(node)
            self._enter(node)

    def discard(self, node: Node) -> None:
        """Make the entry of a node void, if it has one."""
        if node.entry:
            node.entry = 0
            self._n_void += 1
            if self._n_void > _MIN_VOID and 2 * self._n_void > len(self._heap):
                self.clean()

    def pop(self) -> Node | None:
        """Take out the unlocked leaf with the smallest key; None when there is none."""
        while self._heap:
            entered, serial, node = heapq.heappop(self._heap)
            if serial != node.entry:
                self._n_void -= 1
                continue
            node.entry = 0
            if not node.is_evictable:
                continue
            if self._key(node) == entered:
                return node
            self._enter(node)
        return None

    def misplaced(self) -> list[Node]:
        """Leaves that would be taken out too late. None, unless a key fell and nobody told."""
        valid = [entry for entry in self._heap if entry[1] == entry[2].entry]
        return [node for key, _, node in valid if node.is_evictable and self._key(node) < key]

    def clean(self) -> None:
        """Forget void entries, so that nodes that have left the tree can be freed."""
        self._heap = [entry for entry in self._heap if entry[1] == entry[2].entry]
        heapq.heapify(self._heap)
        self._n_void = 0

    def __len__(self) -> int:
        return len(self._heap)

    def _enter(self, node: Node) -> None:
        node.entry = next(self._serial)
        heapq.heappush(self._heap, (self._key(node), node.entry, node))
