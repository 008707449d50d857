"""What is said of a server's list, in bounded room: its words may be long, deep, or never end."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence

_LONGEST = 100
_MOST_NOTES = 50
_MOST_LINES = 100


def excerpt(value: object) -> str:
    """Return a text, or any value as Python writes it, in at most 100 characters. Never fails."""
    if isinstance(value, str):
        return value[:_LONGEST]
    try:
        return reprlib.repr(value)[:_LONGEST]
    except (ValueError, RecursionError):  # a number of too many digits
        return type(value).__name__


def bounded(lines: Sequence[str]) -> Sequence[str]:
    """Return the first hundred lines, and how many more there are."""
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} more of the kind"]


class Notes:
    """Lines for logs: each once, and 50 at most."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Add a line, if it is new and there is room."""
        if len(self._lines) < _MOST_NOTES:
            self._lines[text] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)
