"""Prefixes that the operator publishes: all tenants read them, none can write there.

A published prefix is a run of tokens in a public root, locked for as long as it is published. A
request that may read it and whose tokens start with the whole of it goes on in an overlay root
of its own namespace, which hangs on the public node. So a tenant's tail is private, paths and
locks run on into the public part, and no tenant's tokens are ever inserted into the public root.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.tokens import count
from agentkit_runtime.kv.tree import RadixTree

_DOMAIN = b"agentkit-overlay/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A prefix that is published."""

    handle: str
    public: bytes
    """The public root's digest."""
    tokens: int


class Prefix:
    """A published prefix and its lock."""

    __slots__ = ("digest", "handle", "node", "public", "tokens")

    def __init__(self, public: bytes, tokens: bytes, node: Node, serial: int) -> None:
        self.public = public
        self.tokens = tokens
        self.node = node
        framed = b"".join(
            len(part).to_bytes(8, "little") + part
            for part in (_DOMAIN, public, tokens, serial.to_bytes(8, "little"))
        )
        self.digest = hashlib.sha256(framed).digest()
        """Differs from that of an earlier prefix with the same tokens."""
        self.handle = f"public-{self.digest.hex()[:32]}"

    def overlay(self, namespace: bytes) -> bytes:
        """The name of a namespace's root behind this prefix."""
        return hashlib.sha256(self.digest + namespace).digest()

    def view(self) -> Published:
        """What the operator sees."""
        return Published(handle=self.handle, public=self.public, tokens=count(self.tokens))


class PublicPrefixes:
    """What is published in one tree."""

    def __init__(self, tree: RadixTree) -> None:
        self._tree = tree
        self._prefixes: dict[bytes, list[Prefix]] = {}
        self._serial = itertools.count(1)

    def find(self, public: bytes | None, tokens: bytes) -> Prefix | None:
        """The longest prefix published in `public` that `tokens` starts with."""
        if public is not None:
            for prefix in self._prefixes.get(public, ()):
                if tokens.startswith(prefix.tokens):
                    return prefix
        return None

    def get(self, public: bytes, tokens: bytes) -> Prefix | None:
        """The prefix with exactly these tokens."""
        found = [p for p in self._prefixes.get(public, ()) if p.tokens == tokens]
        return found[0] if found else None

    def with_handle(self, handle: str) -> Prefix | None:
        """The prefix with this handle."""
        return next((prefix for prefix in self if prefix.handle == handle), None)

    def add(self, public: bytes, tokens: bytes, node: Node) -> Prefix:
        """Publish `tokens`, which end at `node` of the public root."""
        self._tree.lock(node)
        prefix = Prefix(public, tokens, node, next(self._serial))
        prefixes = self._prefixes.setdefault(public, [])
        prefixes.append(prefix)
        prefixes.sort(key=lambda other: len(other.tokens), reverse=True)
        return prefix

    def drop(self, prefix: Prefix) -> None:
        """Publish it no longer. Its overlays must have been emptied."""
        prefixes = self._prefixes[prefix.public]
        prefixes.remove(prefix)
        if not prefixes:
            del self._prefixes[prefix.public]
        self._tree.unlock(prefix.node)

    def overlays(self, prefix: Prefix) -> list[bytes]:
        """The names of the roots that hang on this prefix."""
        return [
            root.namespace
            for root in self._tree.roots()
            if root.parent is prefix.node and root.namespace == prefix.overlay(root.owner)
        ]

    def __iter__(self) -> Iterator[Prefix]:
        return iter([prefix for prefixes in self._prefixes.values() for prefix in prefixes])
