"""Bringing blocks back from slower tiers into the tree.

A restore never changes what a lookup finds before it is complete: the blocks are fetched into
memory of the tier, then `KvCache.finish_restore` takes slots, loads them and inserts all at once.
What the device has of the prefix is locked meanwhile, so that the blocks still have something to
follow; a restore waits for nothing but the fetch, so this cannot become a deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.kv.blocks import last_name
from agentkit_runtime.kv.node import Node, RootNode
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tiers.base import BLOCK_BYTES, BLOCK_TOKENS, Fetch, chain, first_parent
from agentkit_runtime.kv.tokens import TOKEN_BYTES, common_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Restorable:
    """What slower tiers could add to what the device has of a prefix."""

    tokens: bytes
    """The prefix, up to the last block that tiers hold."""
    namespace: bytes
    scope: Scope
    cached: int
    """Tokens that the device has."""
    gained: int
    """Tokens that fetching adds."""
    first_block: int
    """Index of the first block to fetch; the device may have a part of it."""
    names: tuple[bytes, ...]


class Restore:
    """Blocks on their way. Belongs to one caller, who finishes or cancels it."""

    __slots__ = ("closed", "fetch", "node", "root", "wanted")

    def __init__(self, wanted: Restorable, fetch: Fetch, root: bytes, node: Node) -> None:
        self.wanted = wanted
        self.fetch = fetch
        self.root = root
        """The name of the root it goes into."""
        self.node = node
        """Locked; where the blocks are to follow."""
        self.closed = False

    @property
    def done(self) -> bool:
        """Nothing more will arrive; `KvCache.finish_restore` does not wait."""
        return self.fetch.done


def names_behind(root: RootNode, tokens: bytes) -> tuple[int, int, list[bytes]]:
    """Tokens known below `root`, and index and names of the blocks that are not all known.

    Leaves no trace: the known tokens may end inside an edge.
    """
    node: Node = root
    offset = root.start * TOKEN_BYTES
    parent = b""
    while offset < len(tokens):
        child = node.children.get(tokens[offset : offset + TOKEN_BYTES])
        if child is None:
            break
        if not tokens.startswith(child.edge, offset):
            offset += common_prefix(tokens, offset, child.edge) * TOKEN_BYTES
            n_whole = offset // BLOCK_BYTES - child.start // BLOCK_TOKENS
            parent = child.names[n_whole - 1] if n_whole else b""
            break
        offset += len(child.edge)
        node = child
    first = offset // BLOCK_BYTES
    return (
        offset // TOKEN_BYTES,
        first,
        chain(parent or last_name(node), tokens[first * BLOCK_BYTES :]),
    )


def names_from_start(namespace: bytes, tokens: bytes, n_public: int) -> tuple[int, list[bytes]]:
    """Index and names of the blocks behind `n_public` tokens of a namespace that has no root."""
    first = n_public // BLOCK_TOKENS
    return first, chain(first_parent(namespace), tokens)[first:]
