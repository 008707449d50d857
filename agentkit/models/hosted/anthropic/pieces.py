"""Pieces of a prompt: bytes that caches tell apart, made once and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from agentkit.blocks import Breakpoint
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Block, Mark, Role
from agentkit.caching.tokens import data_tokens
from agentkit.models.hosted.piece_store import PieceStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One content block or tool on the wire."""

    block: Block
    data: bytes
    """A JSON object without any mark."""


def piece(
    kind: BlockKind,
    data: bytes,
    *,
    n_tokens: int | None = None,
    mark: Mark | None = None,
    shows_image: bool = False,
) -> Piece:
    """Return a piece; without `n_tokens` they are estimated from the data."""
    block = Block(
        kind=kind,
        digest=hashlib.blake2b(data, digest_size=16).digest(),
        n_tokens=data_tokens(data) if n_tokens is None else n_tokens,
        mark=mark,
        shows_image=shows_image,
    )
    return Piece(block=block, data=data)


def spliced(data: bytes, fields: bytes) -> bytes:
    """Return a JSON object with more fields, such as `"a":1,"b":2`, at its end."""
    if not fields:
        return data
    return data[:-1] + (b"," if len(data) > 2 else b"") + fields + b"}"


def message_data(role: Role, blocks: Iterable[bytes]) -> bytes:
    """Return a message with these content blocks."""
    return b'{"role":"%b","content":[%b]}' % (_ROLES[role], b",".join(blocks))


def mark_of(breakpoint: Breakpoint | None, ttls: tuple[Ttl, ...]) -> Mark | None:
    """Return the user's mark: with the next longer lifetime that exists, or else the longest."""
    if breakpoint is None:
        return None
    if breakpoint == "default":
        return Mark()
    wanted = Ttl(breakpoint).seconds
    by_length = sorted(ttls, key=lambda ttl: ttl.seconds)
    return Mark(next((ttl for ttl in by_length if ttl.seconds >= wanted), by_length[-1]))


PieceCache: TypeAlias = PieceStore[tuple[Piece, ...]]


def new_cache() -> PieceCache:
    """Return a store of the pieces of segments."""
    return PieceStore(_n_bytes)


def _n_bytes(pieces: tuple[Piece, ...]) -> int:
    return sum(len(each.data) for each in pieces)


_ROLES = {Role.USER: b"user", Role.ASSISTANT: b"assistant", Role.DEVELOPER: b"system"}
