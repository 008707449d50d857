"""Encoded segments, so that none is encoded twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from agentkit.models.hosted.openai_chat.pieces import Encoded

_MAX_BYTES = 64 * 2**20


class PieceStore:
    """Keeps what was used last, within a bound of bytes.

    Args:
        max_bytes: of all pieces together; one that is larger is kept alone.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[tuple[object, ...], Encoded] = OrderedDict()
        self.n_bytes = 0
        """Size of what is kept."""
        self.n_encoded = 0
        """How often something was not found."""

    def get(self, key: tuple[object, ...], encode: Callable[[], Encoded]) -> Encoded:
        """Return what is kept under the key, or encode it."""
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        self.n_encoded += 1
        made = self._known[key] = encode()
        self.n_bytes += made.n_bytes
        while self.n_bytes > self._max_bytes and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            self.n_bytes -= dropped.n_bytes
        return made
