"""Nodes in the order of their last use, without looking at all of them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import Generic, TypeVar

from agentkit_runtime.kv.node import Node

T = TypeVar("T")


class Hottest(Generic[T]):
    """A queue of nodes, the one used last first. A parent is used whenever a child is, so who adds
    children of what was taken sees a tree in that order."""

    def __init__(self, most: int) -> None:
        """Takes in `most` nodes, and no more."""
        self._heap: list[tuple[int, int, Node, T]] = []
        self._left = most
        self._serial = itertools.count()
        self.complete = True
        """Nothing has been left out so far."""

    def add(self, nodes: Iterable[Node], note: T) -> None:
        """Take nodes in, with what is to be remembered of them."""
        for node in nodes:
            if not self._left:
                self.complete = False
                return
            self._left -= 1
            heapq.heappush(self._heap, (-node.last_used, next(self._serial), node, note))

    def take(self) -> tuple[Node, T]:
        """The next node, and what was remembered of it."""
        _, _, node, note = heapq.heappop(self._heap)
        return node, note

    def __bool__(self) -> bool:
        return bool(self._heap)
