"""A small memory of the things that were used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A bounded mapping, least recently used first out. Thread-safe."""

    def __init__(self, max_weight: int) -> None:
        """`max_weight` bounds the sum of the weights given to `put`."""
        self._max_weight = max_weight
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def weight(self) -> int:
        """What is kept, in the unit of `max_weight`."""
        return self._weight

    def get(self, key: K) -> V | None:
        """The value of `key`, which is now the one used last; None if it is not there."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep `value`, in the place of an older one; what is heavier than the memory is not."""
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._weight -= old[1]
            if weight > self._max_weight:
                return
            self._items[key] = (value, weight)
            self._weight += weight
            while self._weight > self._max_weight:
                _, (_, dropped) = self._items.popitem(last=False)
                self._weight -= dropped
