"""Pieces of a prompt: bytes that caches tell apart, made once and kept."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from agentkit.blocks import Breakpoint
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Block, Mark, Role
from agentkit.caching.tokens import data_tokens


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


def dumps(value: object) -> bytes:
    """Return compact JSON with the keys in the order in which they are."""
    return _ENCODER.encode(value).encode()


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


class PieceCache:
    """Keeps the pieces of segments, the longest unused go first. Safe to use from any thread."""

    def __init__(self, max_bytes: int = 64 * 2**20) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Piece, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], tuple[Piece, ...]]) -> tuple[Piece, ...]:
        """Return what is kept under the key; make it first where nothing is."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._n_bytes += _n_bytes(made)
                self._drop_oldest()
        return made

    def _drop_oldest(self) -> None:
        while self._n_bytes > self._max_bytes and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._n_bytes -= _n_bytes(dropped)


def _n_bytes(pieces: tuple[Piece, ...]) -> int:
    return sum(len(each.data) for each in pieces)


_ROLES = {Role.USER: b"user", Role.ASSISTANT: b"assistant", Role.DEVELOPER: b"system"}

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""`json.dumps` would make one for each value."""
