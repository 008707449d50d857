"""What is remembered of a process that never ends: a bounded number of things, the latest."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Recent(OrderedDict[KeyT, ValueT]):
    """A mapping that drops what was set longest ago."""

    def __init__(self, n_kept: int) -> None:
        """`n_kept`: how many things are kept, at least 1."""
        super().__init__()
        if n_kept < 1:
            raise ValueError(f"n_kept must be at least 1, got {n_kept!r}")
        self._n_kept = n_kept

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        was_there = key in self
        super().__setitem__(key, value)
        if was_there:
            self.move_to_end(key)
        elif len(self) > self._n_kept:
            self.popitem(last=False)
