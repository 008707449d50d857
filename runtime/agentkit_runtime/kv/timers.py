"""Things that happen at a time, looked at when somebody asks. No thread, no sleep."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable

_MIN_VOID = 64


class Timers:
    """One heap of actions by time, in seconds of any clock; at most one for each key."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._actions: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._serial = itertools.count()

    def set(self, key: Hashable, when_s: float, action: Callable[[], None]) -> None:
        """Run `action` in the first `run` whose time is `when_s` or later; replaces the key's."""
        serial = next(self._serial)
        self._actions[key] = serial, action
        heapq.heappush(self._heap, (when_s, serial, key))
        if len(self._heap) > 2 * len(self._actions) + _MIN_VOID:
            self._heap = [entry for entry in self._heap if self._is_valid(entry)]
            heapq.heapify(self._heap)

    def cancel(self, key: Hashable) -> None:
        """Forget the key's action, if there is one."""
        self._actions.pop(key, None)

    def run(self, now_s: float) -> None:
        """Run what is due, the earliest first. Actions may set more."""
        while self._heap and self._heap[0][0] <= now_s:
            entry = heapq.heappop(self._heap)
            if self._is_valid(entry):
                self._actions.pop(entry[2])[1]()

    def __len__(self) -> int:
        return len(self._actions)

    def _is_valid(self, entry: tuple[float, int, Hashable]) -> bool:
        action = self._actions.get(entry[2])
        return action is not None and action[0] == entry[1]
