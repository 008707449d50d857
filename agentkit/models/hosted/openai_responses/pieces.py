"""Pieces of a request: encoded once for each segment, then kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, Mark, Role
from agentkit.models.hosted.piece_store import PieceStore

NEXT_PART: Final = b","
LAST_PART: Final = b"]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A whole input item, or one part of an item's content list."""

    block: Block
    data: bytes
    """Its JSON. The first part of an item has the item's head in front of it."""
    after: Literal[b"", b",", b"]}"] = b""
    """What follows it on the wire: nothing behind a whole item, else another part or the end."""

    @property
    def is_markable(self) -> bool:
        """Whether it can carry a breakpoint: parts can, whole items cannot."""
        return bool(self.after)


@dataclass(frozen=True, slots=True)
class Entry:
    """The pieces of one message."""

    role: Role
    pieces: tuple[Piece, ...]
    text: bytes = field(init=False, repr=False, compare=False)
    """Its items on the wire, without marks."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", joined(self.pieces, [each.data for each in self.pieces]))


def joined(pieces: Sequence[Piece], datas: Sequence[bytes]) -> bytes:
    """Return the items that pieces make up; `datas` are their bytes, with their marks."""
    found: list[bytes] = []
    within = True
    for piece, data in zip(pieces, datas, strict=True):
        if not within:
            found.append(b",")
        found += (data, piece.after)
        within = piece.after == NEXT_PART
    return b"".join(found)


def piece(
    data: bytes,
    *,
    kind: BlockKind,
    n_tokens: int,
    after: Literal[b"", b",", b"]}"] = b"",
    mark: Mark | None = None,
) -> Piece:
    """Return a piece whose block is named by its bytes."""
    digest = hashlib.blake2b(data, digest_size=16).digest()
    block = Block(kind=kind, digest=digest, n_tokens=n_tokens, mark=mark)
    return Piece(block=block, data=data, after=after)


Entries: TypeAlias = PieceStore[tuple[Entry, ...]]


def new_entries() -> Entries:
    """Return a store of the entries of segments."""
    return PieceStore(_size)


def _size(entries: tuple[Entry, ...]) -> int:
    return sum(len(item.data) for entry in entries for item in entry.pieces)
