"""What was encoded before: a segment's pieces are made once, and shared by all requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

PiecesT = TypeVar("PiecesT")

_MAX_BYTES = 64 * 2**20
"""Contexts that are alive hold as much again; what is older is encoded anew if it comes back."""

_ENTRY_BYTES = 200
"""What an entry takes beside its pieces, also where it has none."""


class PieceStore(Generic[PiecesT]):
    """Pieces by what they were made of; what was used longest ago goes first.

    Usable from several threads: all of them get the same pieces.

    Args:
        size_of: returns the bytes that pieces hold.
        max_bytes: of all that is kept; what is larger is kept alone.
    """

    def __init__(self, size_of: Callable[[PiecesT], int], *, max_bytes: int = _MAX_BYTES) -> None:
        self._size_of = size_of
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._kept: OrderedDict[Hashable, PiecesT] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], PiecesT]) -> PiecesT:
        """Return what is kept under the key; make it first where nothing is."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = make()  # without the lock: others need not wait for it
        with self._lock:
            kept = self._kept.setdefault(key, made)
            if kept is made:
                self._n_bytes += self._entry_bytes(made)
                self._drop_oldest()
            return kept

    def _drop_oldest(self) -> None:
        while self._n_bytes > self._max_bytes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._n_bytes -= self._entry_bytes(dropped)

    def _entry_bytes(self, pieces: PiecesT) -> int:
        return _ENTRY_BYTES + self._size_of(pieces)
