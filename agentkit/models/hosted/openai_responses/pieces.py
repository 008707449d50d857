"""Pieces of a request: encoded once for each segment, then kept."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, Mark, Role

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


class PieceStore:
    """Entries by the digest of their segment; what was used longest ago goes first.

    Usable from several threads.
    """

    def __init__(self, max_bytes: int = 64 * 2**20) -> None:
        self._entries: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._lock = threading.Lock()

    def get(self, digest: str, encode: Callable[[], tuple[Entry, ...]]) -> tuple[Entry, ...]:
        """Return what is kept for a digest, or encode and keep it."""
        with self._lock:
            found = self._entries.get(digest)
            if found is not None:
                self._entries.move_to_end(digest)
                return found
        made = encode()
        with self._lock:
            if digest not in self._entries:
                self._entries[digest] = made
                self._n_bytes += _size(made)
            while self._n_bytes > self._max_bytes and len(self._entries) > 1:
                _, dropped = self._entries.popitem(last=False)
                self._n_bytes -= _size(dropped)
        return made


def _size(entries: tuple[Entry, ...]) -> int:
    return sum(len(item.data) for entry in entries for item in entry.pieces)
