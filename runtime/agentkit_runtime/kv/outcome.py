"""What operations of the radix tree return, and who is told of them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.node import Node


class Match(NamedTuple):
    """The longest known prefix. Lock `node` before anything else happens to the tree."""

    node: Node
    """Ends exactly at `length`; the namespace's root when nothing matched."""
    length: int
    """Tokens."""
    extents: list[Extent]
    """The slots of these tokens."""


class Insertion(NamedTuple):
    """Where inserted tokens ended up. Lock `node` before anything else happens to the tree."""

    node: Node
    """Ends exactly at the last inserted token."""
    extents: list[Extent]
    """The canonical slots of all inserted tokens."""
    duplicates: list[Extent]
    """Slots the caller brought for tokens that the tree already had in other slots.

    The caller still owns them: it must stop using them and then free them.
    """


class Removal(NamedTuple):
    """What `RadixTree.remove` did to a branch."""

    freed: list[Extent]
    """Slots that nobody needs any more."""
    n_condemned: int
    """Tokens that go when their last lock does; `take_released` then has their slots."""


class Watcher(Protocol):
    """Is told what enters and leaves a tree. Must not change it."""

    def stored(self, node: Node, tokens: bytes, n_known: int) -> None:
        """`tokens`, of which the tree had the first `n_known`, now end at `node`."""

    def removing(self, node: Node, n_kept: int, *, evicted: bool) -> None:
        """`node`, still in its place, is about to lose its tokens behind the first `n_kept`."""
