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
from collections.abc import Callable, Iterable, Sequence
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
        prompt = self.begin(namespace)
        for piece in pieces:
            prompt.add(piece)
        return prompt.recalled()

    def remember(
        self, namespace: bytes, prompt: Iterable[Piece], reply: str, reply_ids: Iterable[int]
    ) -> None:
        """Remember that the model answered `prompt` with `reply_ids`, which read `reply`."""
        known = self.begin(namespace)
        for piece in prompt:
            known.add(piece)
        self.remember_after(known, reply, reply_ids)

    def begin(self, namespace: bytes) -> PromptIds:
        """An empty prompt, to which pieces are added one by one."""
        return PromptIds(self._find, _Prefix(namespace), [], 0)

    def resume(self, cut: IdCut, ids: Sequence[int]) -> PromptIds:
        """A prompt at a cut that was taken of it; its first ids are those of `ids`."""
        first = list(ids)
        del first[cut.n_ids :]
        return PromptIds(self._find, cut.text.copy(), first, cut.n_reused)

    def remember_after(self, prompt: PromptIds, reply: str, reply_ids: Iterable[int]) -> None:
        """Remember what the model answered to `prompt`, which is not changed by it.

        The plain text behind the prompt's last special token (a role's name, a line break) and the
        reply will be one piece in the next prompt, so they are remembered as one.
        """
        key = prompt.digest_with(reply)
        self._store(key, array("i", (*prompt.open_ids, *reply_ids)))

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


class PromptIds:
    """The ids of a prompt that is added piece by piece. For one thread, until nothing is added."""

    __slots__ = ("_find", "_ids", "_n_reused", "_open", "_text")

    def __init__(
        self,
        find: Callable[[bytes], Sequence[int] | None],
        text: _Prefix,
        ids: list[int],
        n_reused: int,
    ) -> None:
        self._find = find
        self._text = text
        self._ids = ids
        self._n_reused = n_reused
        self._open: Piece | None = None

    @property
    def open_ids(self) -> tuple[int, ...]:
        """The ids of plain text that no special token has ended yet."""
        return () if self._open is None else self._open.ids

    def add(self, piece: Piece) -> None:
        """Add the next piece."""
        if piece.is_special:
            self.end_text()
            self._ids += piece.ids
        elif self._open is not None:
            self._ids += self._open.ids
        self._text.add(piece)
        self._open = None if piece.is_special else piece

    def cut(self) -> IdCut:
        """Cut the prompt here, in front of a special token."""
        self.end_text()
        return IdCut(len(self._ids), self._n_reused, self._text.copy())

    def end_text(self) -> None:
        """Settle the ids of the text before a special token: it may be a known reply."""
        if self._open is None:
            return
        reply = self._find(self._text.digest())
        self._n_reused += len(reply or ())
        self._ids += self._open.ids if reply is None else reply
        self._open = None

    def recalled(self) -> Recalled:
        """All ids so far."""
        return Recalled((*self._ids, *self.open_ids), self._n_reused)

    def digest_with(self, text: str) -> bytes:
        """Names the prompt with plain `text` behind it."""
        whole = self._text.copy()
        whole.add(Piece(text, (), is_special=False))
        return whole.digest()


@dataclass(frozen=True, slots=True)
class IdCut:
    """A place in front of a special token of a prompt: what is before it is settled."""

    n_ids: int
    n_reused: int
    text: _Prefix


class _Prefix:
    """Digest of all that was added, cheap to take at any point."""

    __slots__ = ("_hash",)

    def __init__(self, namespace: bytes) -> None:
        self._hash: _Hash = hashlib.sha256(len(namespace).to_bytes(8, "little") + namespace)

    def add(self, piece: Piece) -> None:
        """Extend the text. Plain texts in a row are the same as one."""
        if piece.is_special:
            for token_id in piece.ids:
                self._hash.update(_SPECIAL + token_id.to_bytes(4, "little"))
        else:
            self._hash.update(piece.text.encode("utf-8", "surrogatepass"))

    def copy(self) -> _Prefix:
        """The same digest, to be extended otherwise."""
        twin = _Prefix.__new__(_Prefix)
        twin._hash = self._hash.copy()
        return twin

    def digest(self) -> bytes:
        """The digest so far."""
        return self._hash.digest()
