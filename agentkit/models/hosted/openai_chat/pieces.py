"""Bytes of messages, cut where a cache mark may stand.

A message's pieces, joined by their glue, are its JSON. Nothing here knows what a message means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, Mark, Message, Role
from agentkit.caching.tokens import data_tokens
from agentkit.models.hosted.wire import WireBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(WireBlock):
    """A piece of the wire, and where its mark would go."""

    mark_at: int | None = None
    """Offset in `data` for the field of a mark; None: it cannot have one."""
    glue: bytes = b","
    """What stands before it, unless it is the first of its list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A segment as it lies on the wire."""

    pieces: tuple[Piece, ...]
    messages: tuple[Message, ...]
    """The same, as caches see it."""

    @property
    def n_bytes(self) -> int:
        """Size of the pieces."""
        return sum(len(piece.data) for piece in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A JSON object or value that becomes one piece."""

    data: bytes
    kind: BlockKind = BlockKind.TEXT
    n_tokens: int | None = None
    """None: by its bytes."""
    mark: Mark | None = None
    """Set by the user."""
    markable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One member of a message, e.g. `"content":[` parts `]`."""

    before: bytes
    parts: Sequence[Part]
    after: bytes = b""


@dataclass(slots=True)
class Writer:
    """Puts messages together, for one segment."""

    segment: int | None
    pieces: list[Piece] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def message(self, begun_with: bytes, fields: Iterable[Field], *, role: Role) -> None:
        """Add a message: its beginning, at least one field with parts, and a closing brace."""
        begun = len(self.pieces)
        pending: tuple[bytes, Part, bytes] | None = None
        lead = begun_with
        for each in fields:
            for place, part in enumerate(each.parts):
                if pending is not None:
                    self._add(*pending)
                lead += each.before if place == 0 else b""
                pending = lead, part, each.after if place == len(each.parts) - 1 else b""
                lead = b""
        if pending is None:
            raise ValueError("a message needs at least one part")
        lead, part, tail = pending
        self._add(lead, part, tail + b"}")
        blocks = tuple(each.block for each in self.pieces[begun:])
        self.messages.append(Message(role, blocks))

    def encoded(self) -> Encoded:
        """Return everything that was added."""
        return Encoded(pieces=tuple(self.pieces), messages=tuple(self.messages))

    def _add(self, lead: bytes, part: Part, tail: bytes) -> None:
        data = lead + part.data + tail
        n_tokens = data_tokens(part.data) if part.n_tokens is None else part.n_tokens
        block = Block(kind=part.kind, digest=b"", n_tokens=n_tokens, mark=part.mark)
        mark_at = len(lead) + len(part.data) - 1 if part.markable else None
        self.pieces.append(piece(data, block, segment=self.segment, mark_at=mark_at))


def piece(
    data: bytes,
    block: Block,
    *,
    segment: int | None,
    mark_at: int | None = None,
    glue: bytes = b",",
) -> Piece:
    """Return a piece of these bytes; the block gets their digest."""
    named = Block(
        kind=block.kind,
        digest=hashlib.blake2b(data, digest_size=16).digest(),
        n_tokens=block.n_tokens,
        mark=block.mark,
    )
    return Piece(block=named, data=data, segment=segment, mark_at=mark_at, glue=glue)


def joined(pieces: Iterable[Piece], marks: dict[int, bytes], start: int = 0) -> bytes:
    """Return the pieces as one list's inside, with each mark's field behind its part.

    `marks` are by index over the whole request; `start` is that of the first piece.
    """
    out: list[bytes] = []
    for index, each in enumerate(pieces, start):
        if out:
            out.append(each.glue)
        mark = marks.get(index)
        if mark is None or each.mark_at is None:
            out.append(each.data)
        else:
            out += (each.data[: each.mark_at], b",", mark, each.data[each.mark_at :])
    return b"".join(out)


def opening(role: str) -> bytes:
    """Return how a message begins."""
    return b'{"role":"%b",' % role.encode()
