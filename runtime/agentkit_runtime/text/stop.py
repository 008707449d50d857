"""Finds stop strings in text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a piece of text added."""

    text: str
    """Text that is certainly not the beginning of a stop string."""
    stopped: bool
    """A stop string was completed; `text` ends where it began."""


class StopScanner:
    """Cuts text before the stop string that is completed first (of several, the longest).

    How the text is split into pieces makes no difference.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise ValueError("stop strings must not be empty")
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self._stopped = False
        self.found: str | None = None
        """The stop string that was completed."""

    def push(self, text: str) -> Scanned:
        """Add text; after a stop string, nothing comes out any more."""
        if self._stopped:
            return Scanned("", True)
        self._held += text
        found = self._first_stop()
        if found is not None:
            cut, self.found = found
            safe, self._held, self._stopped = self._held[:cut], "", True
            return Scanned(safe, True)
        keep = self._pending_length()
        end = len(self._held) - keep
        safe, self._held = self._held[:end], self._held[end:]
        return Scanned(safe, False)

    def finish(self) -> str:
        """The text that was held back because it could have become a stop string."""
        rest, self._held = self._held, ""
        return rest

    def _first_stop(self) -> tuple[int, str] | None:
        """Start of the stop string that ends first, and the string."""
        found = [
            (at + len(stop), at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0
        ]
        return min(found)[1:] if found else None

    def _pending_length(self) -> int:
        """Length of the longest end of the held text that is the beginning of a stop string."""
        for length in range(min(self._longest - 1, len(self._held)), 0, -1):
            end = self._held[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
