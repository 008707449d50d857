"""What one running sequence holds."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.kv.extent import Extent, drop, take
from agentkit_runtime.kv.labels import Label
from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import count


@dataclass(slots=True, kw_only=True, eq=False)
class Lease:
    """Slots for positions `[0, capacity)` of one sequence. Only `KvCache` changes a lease.

    [0, committed)         in the tree, locked, perhaps read by other sequences too: never write
    [committed, capacity)  private to this sequence
    """

    namespace: bytes
    root: bytes
    """Name of the root its tokens go into: the namespace's own, or one behind a published prefix.
    """
    scope: Scope
    cached: int
    """Tokens found in the cache when the sequence started, those of a published prefix included."""
    public: int
    """Of them, those of a published prefix."""
    tokens: bytes
    """The committed tokens, packed."""
    extents: list[Extent]
    """Where positions `[0, capacity)` lie. Replaced as a whole, the list itself never changes."""
    capacity: int
    """Positions that have a slot."""
    node: Node
    """The locked tree node; ends at `committed`."""
    label: Label | None = None
    """What the scope's session or tags stand for; None without."""
    released: bool = False

    @property
    def committed(self) -> int:
        """Leading tokens whose KV the tree has."""
        return count(self.tokens)

    @property
    def exclusive(self) -> int:
        """Committed tokens that nobody else has locked: evictable as soon as this is released."""
        n_tokens = 0
        node: Node | None = self.node
        while node is not None and node.locks == 1:
            n_tokens += node.extent.length
            node = node.parent
        return n_tokens

    def extents_for(self, start: int, length: int) -> list[Extent]:
        """The slots of positions `[start, start + length)`.

        Raises ValueError when they are not all below `capacity`.
        """
        if start < 0 or length < 0 or start + length > self.capacity:
            raise ValueError(
                f"positions {start!r} to {start + length!r} are outside the lease's "
                f"{self.capacity!r}; grow it first"
            )
        return take(drop(self.extents, start), length)

    def require_active(self) -> None:
        """Raise ValueError when the lease was released."""
        if self.released:
            raise ValueError(
                f"this lease of {self.committed!r} committed tokens was released; acquire a new one"
            )
