"""Which unlocked leaf leaves first.

A policy gives each node a key; the leaf with the smallest key is evicted. The queue is lazy: a key
may rise at any time without notice, but when it falls the tree must be told (`RadixTree.requeue`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, cast

from agentkit_runtime.kv.node import DONE, NORMAL, Node

Key = Callable[[Node], Any]
"""What `EvictionPolicy.key` is; keys of one policy can be compared with each other."""

PolicyName = Literal["lru", "lfu", "slru", "hints"]


class EvictionPolicy(Protocol):
    """The order of eviction. Leaves go before their parents whatever the keys are."""

    counts_hits: bool
    """Keys depend on `Node.hits`: nodes of different hits must not be joined."""

    def key(self, node: Node) -> Any:
        """Smaller leaves first."""


class Lru:
    """Least recently used first. A hit uses the whole path, so this is plain LRU of tokens."""

    counts_hits = False

    def key(self, node: Node) -> int:
        """Logical time of the last use."""
        return node.last_used


class Lfu:
    """Least often used first, then least recently. Nothing ages: for use that never changes."""

    counts_hits = True

    def key(self, node: Node) -> tuple[int, int]:
        """Uses, then time."""
        return node.hits, node.last_used


class Slru:
    """Segmented LRU: what was used only once goes before what was used again."""

    counts_hits = True

    def key(self, node: Node) -> tuple[bool, int]:
        """Whether it was used again, then time."""
        return node.hits > 1, node.last_used


class HintedLru:
    """LRU in three ranks: sessions that are done, then ordinary use, then what hints expect soon.

    Without hints it is `Lru`. What one session alone has left is done with it, also where its tag
    is expected. A leaf that several left (a front that agents of one type share) has the highest of
    their ranks, and is ordinary where all of them are done: others will begin with it.
    """

    counts_hits = False

    def key(self, node: Node) -> tuple[int, int]:
        """Rank, then time."""
        owners = node.owners
        if not owners:
            return NORMAL, node.last_used
        if len(owners) == 1:
            (owner,) = owners
            return DONE if owner.done else owner.rank, node.last_used
        return max(NORMAL, *(owner.rank for owner in owners)), node.last_used


def policy(choice: PolicyName | EvictionPolicy) -> EvictionPolicy:
    """The policy with this name, or the one given. Raises ValueError for anything else."""
    if callable(getattr(choice, "key", None)) and hasattr(choice, "counts_hits"):
        return cast("EvictionPolicy", choice)
    match choice:
        case "lru":
            return Lru()
        case "lfu":
            return Lfu()
        case "slru":
            return Slru()
        case "hints":
            return HintedLru()
        case _:
            raise ValueError(
                "eviction must be 'lru', 'lfu', 'slru', 'hints' or an EvictionPolicy, "
                f"got {choice!r}"
            )
