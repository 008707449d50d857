"""What was laid out before, so that a longer context is laid out from where it ends."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

from agentkit.context import Context, Segment

StateT = TypeVar("StateT")

_KEPT = 256
"""Contexts: more than there are runs at once, and few enough to hold no memory worth a word."""


class Begun(Generic[StateT]):
    """By context: how far it is laid out. What was used longest ago goes first.

    Of one conversation the last two are kept: one that goes on from an earlier place is laid out
    anew. Usable from several threads. States are shared: they must never be changed.
    """

    def __init__(self, n_kept: int = _KEPT) -> None:
        self._n_kept = n_kept
        self._states: OrderedDict[str, StateT] = OrderedDict()
        self._before: dict[str, str] = {}
        """By context: the one that it was laid out from."""
        self._lock = threading.Lock()

    def longest(self, context: Context) -> tuple[StateT | None, tuple[Segment, ...]]:
        """Return the state of the longest beginning of a context, and the segments behind it."""
        with self._lock:
            begin, behind = context.split_at(self._states)
            state = self._states.get(begin.digest)
            if state is not None:
                self._states.move_to_end(begin.digest)
            return state, behind

    def keep(self, context: Context, state: StateT) -> None:
        """Keep how a context is laid out."""
        name = context.digest
        with self._lock:
            if name not in self._states:
                before = context.split_at(self._states)[0].digest
                self._drop(self._before.get(before))
                self._before[name] = before
            self._states[name] = state
            self._states.move_to_end(name)
            while len(self._states) > self._n_kept:
                self._drop(next(iter(self._states)))

    def _drop(self, name: str | None) -> None:
        if name is not None:
            self._states.pop(name, None)
            self._before.pop(name, None)
