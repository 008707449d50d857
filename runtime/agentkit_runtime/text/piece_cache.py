"""Remembers the ids of pieces of prompts: a conversation is rendered again at every turn.

Each tenant has its own entries, so that nobody can tell what others said by the time that a prompt
takes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable


class PieceCache:
    """A bounded memory of a pure function from text to ids, least recently used first out.

    Thread-safe.
    """

    def __init__(self, encode: Callable[[str], tuple[int, ...]], *, max_chars: int) -> None:
        """`max_chars` bounds what is kept: characters, and `_ENTRY_CHARS` for each text."""
        self._encode = encode
        self._max_chars = max_chars
        self._ids: OrderedDict[tuple[str, str], tuple[int, ...]] = OrderedDict()
        self._n_chars = 0
        self._lock = threading.Lock()

    def __call__(self, tenant: str, text: str) -> tuple[int, ...]:
        """What `encode` gives for `text`; found again only by the same tenant."""
        key = (tenant, text)
        with self._lock:
            known = self._ids.get(key)
            if known is not None:
                self._ids.move_to_end(key)
                return known
        # Outside the lock: a long text must not stop others. Two threads may do the same work.
        ids = self._encode(text)
        with self._lock:
            self._keep(key, ids)
        return ids

    @property
    def n_chars(self) -> int:
        """What is kept, in the unit of `max_chars`."""
        return self._n_chars

    def _keep(self, key: tuple[str, str], ids: tuple[int, ...]) -> None:
        n_chars = len(key[1]) + _ENTRY_CHARS
        if key in self._ids or n_chars > self._max_chars:
            return
        self._ids[key] = ids
        self._n_chars += n_chars
        while self._n_chars > self._max_chars:
            (_, dropped), _ = self._ids.popitem(last=False)
            self._n_chars -= len(dropped) + _ENTRY_CHARS


_ENTRY_CHARS = 32
"""What an entry weighs besides its text."""
