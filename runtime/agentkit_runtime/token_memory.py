"""Which token ids the model generated, found again by the text they became.

A reply comes back as text in the next request. Tokenised again it may give other ids than those the
model produced, and then the KV state of the reply, and of all that follows it, is lost. So after a
generation the ids of the reply are remembered under a digest of the whole rendered text up to its
end, and when a later prompt has that very text in front, it gets those very ids.

Replies are looked up only where a special token follows them: that is where a cut between texts is
a cut between ids. Anything that does not match is tokenised as usual; nothing here can fail a
request.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

_ENTRY_COST = 32
"""What an entry's digest and bookkeeping weigh, in ids."""

_SPECIAL = b"\xff"
"""Cannot occur in UTF-8, so texts and special tokens cannot be mistaken for each other."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a rendered prompt: one special token, or the plain text between two."""

    text: str
    """Without marks; not looked at for a special token."""
    ids: tuple[int, ...]
    is_special: bool


@dataclass(frozen=True, slots=True)
class Recalled:
    """The ids of a prompt, and how many of them come from memory and not from tokenising."""

    ids: tuple[int, ...]
    n_reused_ids: int


class TokenMemory:
    """Bounded memory of generated replies, least recently used first out. Thread-safe.

    Every entry belongs to the namespace it was made in, and no other can find it.
    """

    def __init__(self, *, max_ids: int = 4_000_000) -> None:
        """`max_ids` bounds the memory; an id takes 4 bytes."""
        self._max_ids = max_ids
        self._replies: OrderedDict[bytes, array[int]] = OrderedDict()
        self._cost = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._replies)

    def recall(self, namespace: bytes, pieces: Iterable[Piece]) -> Recalled:
        """The ids of `pieces`, remembered ones where the text up to there is known."""
        ids: list[int] = []
        n_reused = 0
        text = _Prefix(namespace)
        plain: Piece | None = None
        for piece in pieces:
            if plain is not None:
                reply = self._find(text.digest()) if piece.is_special else None
                n_reused += len(reply or ())
                ids += plain.ids if reply is None else reply
            text.add(piece)
            plain = None if piece.is_special else piece
            if piece.is_special:
                ids += piece.ids
        return Recalled((*ids, *(plain.ids if plain is not None else ())), n_reused)

    def remember(
        self, namespace: bytes, prompt: Iterable[Piece], reply: str, reply_ids: Iterable[int]
    ) -> None:
        """Remember that the model answered `prompt` with `reply_ids`, which read `reply`.

        The plain text behind the prompt's last special token (a role's name, a line break) and the
        reply will be one piece in the next prompt, so they are remembered as one.
        """
        text = _Prefix(namespace)
        opening: tuple[int, ...] = ()
        for piece in prompt:
            text.add(piece)
            opening = () if piece.is_special else piece.ids
        text.add(Piece(reply, (), is_special=False))
        self._store(text.digest(), array("i", (*opening, *reply_ids)))

    def _find(self, key: bytes) -> array[int] | None:
        with self._lock:
            found = self._replies.get(key)
            if found is not None:
                self._replies.move_to_end(key)
            return found

    def _store(self, key: bytes, ids: array[int]) -> None:
        with self._lock:
            # The first ids stay: a conversation that already continued from them keeps its prefix.
            if key not in self._replies:
                self._replies[key] = ids
                self._cost += len(ids) + _ENTRY_COST
            self._replies.move_to_end(key)
            while self._cost > self._max_ids:
                _, dropped = self._replies.popitem(last=False)
                self._cost -= len(dropped) + _ENTRY_COST


class _Prefix:
    """Digest of all that was added, cheap to take at any point."""

    def __init__(self, namespace: bytes) -> None:
        self._hash: _Hash = hashlib.sha256(len(namespace).to_bytes(8, "little") + namespace)

    def add(self, piece: Piece) -> None:
        """Extend the text. Plain texts in a row are the same as one."""
        if piece.is_special:
            for token_id in piece.ids:
                self._hash.update(_SPECIAL + token_id.to_bytes(4, "little"))
        else:
            self._hash.update(piece.text.encode("utf-8", "surrogatepass"))

    def digest(self) -> bytes:
        """The digest so far."""
        return self._hash.copy().digest()
