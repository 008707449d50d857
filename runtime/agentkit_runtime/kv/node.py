"""Nodes of the radix tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from agentkit_runtime.kv.extent import Extent

DONE, NORMAL, WANTED = 0, 1, 2
"""Ranks of an owner: its session has ended; ordinary; a hint expects it back soon."""


class Owner(Protocol):
    """Who ended sequences at a node; see `labels`."""

    rank: int
    done: bool
    """Its session has ended: what it alone has left is wanted by nobody."""
    ends: dict[Node, None]


class Node:
    """A run of tokens whose KV lies in one contiguous extent of slots.

    Only the tree writes a node. A caller may keep one as a handle as long as it holds a lock on it:
    it then ends at the same position for ever, however often it is split above.
    """

    __slots__ = (
        "children",
        "condemned",
        "edge",
        "entry",
        "extent",
        "hits",
        "last_used",
        "locks",
        "names",
        "owners",
        "parent",
        "root",
        "start",
    )

    def __init__(
        self, edge: bytes, extent: Extent, parent: Node | None, last_used: int, start: int
    ) -> None:
        self.edge = edge
        """The tokens, packed; empty only in a root."""
        self.extent = extent
        """One slot for each token of `edge`."""
        self.parent = parent
        """None in a root, and in a node that has left the tree."""
        self.root: RootNode | None = None if parent is None else parent.root
        """The root, or the overlay, that it lies below."""
        self.start = start
        """Position of its first token in the sequence."""
        self.children: dict[bytes, Node] = {}
        """By the first token of their edges."""
        self.locks = 0
        """Handles that protect this node: those locked here or anywhere below."""
        self.last_used = last_used
        """Logical time; never less than that of a child."""
        self.hits = 1
        """How many requests used it: the one that inserted it, and each match."""
        self.entry = 0
        """Number of its valid entry in the eviction queue; 0 is none."""
        self.owners: set[Owner] | None = None
        """Whose sequences ended here, as far as they are labelled."""
        self.names: list[bytes] = []
        """Hashes of the blocks whose last token is here, when somebody wants to know them."""
        self.condemned = False
        """Pruned while locked: no lookup finds it, and it goes when the last lock does."""

    @property
    def end(self) -> int:
        """The position behind its last token."""
        return self.start + self.extent.length

    @property
    def is_evictable(self) -> bool:
        """An unlocked leaf that is still in the tree."""
        return not self.children and not self.locks and self.parent is not None and bool(self.edge)

    def upwards(self) -> Iterator[Node]:
        """This node and all above it, the root last."""
        step: Node | None = self
        while step is not None:
            yield step
            step = step.parent

    def path(self) -> list[Node]:
        """The nodes with tokens from the top down to this one. A root has an empty path."""
        return [node for node in self.upwards() if node.edge][::-1]

    def subtree(self) -> Iterator[Node]:
        """This node and everything below it, parents first. Not recursive: chains grow long."""
        pending = [self]
        while pending:
            node = pending.pop()
            pending.extend(node.children.values())
            yield node


class RootNode(Node):
    """The empty prefix of one namespace, or what a namespace has behind a published prefix.

    In the second case it is an overlay: its parent is the public node where the prefix ends, which
    does not know it as a child, so that locks and paths go on into the public part.
    """

    __slots__ = ("namespace", "owner", "seed", "tenant")

    def __init__(
        self, namespace: bytes, *, base: Node | None = None, owner: bytes | None = None
    ) -> None:
        start = 0 if base is None else base.end
        super().__init__(b"", Extent(0, 0), base, 0, start)
        self.root = self
        self.namespace = namespace
        """The name it is looked up by."""
        self.owner = namespace if owner is None else owner
        """The namespace that its tokens belong to; differs from the name in an overlay."""
        self.tenant = ""
        """Label of the tenant that used it first."""
        self.seed: bytes | None = None
        """The block hash that its own blocks follow; None until somebody asks."""
