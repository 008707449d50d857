"""What was encoded before: a segment's pieces are made once, and shared by all requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from agentkit.models.hosted.gemini.encode import Content

_MOST_BYTES = 256 * 1024 * 1024
"""Contexts that are alive hold as much again; what is older is encoded anew if it comes back."""


class Encoded:
    """Contents by what they were made of. Bounded by their bytes; usable from several threads."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Content, ...]] = OrderedDict()
        self._lock = Lock()

    def once(self, key: Hashable, make: Callable[[], tuple[Content, ...]]) -> tuple[Content, ...]:
        """Return what is kept for the key; make it first if there is nothing."""
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        made = make()
        with self._lock:
            kept = self._kept.setdefault(key, made)
            if kept is made:
                self._n_bytes += _size(made)
            while self._n_bytes > self._most_bytes and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._n_bytes -= _size(dropped)
        return kept


def _size(contents: tuple[Content, ...]) -> int:
    return 200 + sum(len(wire.data) for content in contents for wire in content.blocks)
