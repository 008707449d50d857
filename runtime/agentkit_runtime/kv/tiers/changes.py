"""Changes that any thread makes, told in the engine's thread."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from agentkit_runtime.kv.tiers.base import Medium, TierChange

_log = logging.getLogger(__name__)


class Changes:
    """Keeps changes until `tell`, and none while nobody listens."""

    def __init__(self) -> None:
        self._listener: Callable[[TierChange], None] | None = None
        self._kept: deque[TierChange] = deque()

    def listen(self, listener: Callable[[TierChange], None] | None) -> None:
        """Tell this one from now on, or nobody."""
        self._listener = listener
        self._kept.clear()

    def add(self, medium: Medium, stored: bool, names: Sequence[bytes]) -> None:
        """Keep a change. For any thread."""
        if names and self._listener is not None:
            self._kept.append(TierChange(medium, stored, tuple(names)))

    def tell(self) -> None:
        """Tell the listener what was kept."""
        while self._kept and self._listener is not None:
            change = self._kept.popleft()
            try:
                self._listener(change)
            except Exception:  # theirs, not ours
                _log.exception("a listener of KV tiers failed")
