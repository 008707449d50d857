"""OpenRouter's `reasoning_details`: items that must come back exactly as they were sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

_GROWING = ("text", "summary", "data")
"""Members that come in parts; all others are whole when they come."""


class DetailReader:
    """Puts the items of one answer together from their deltas.

    A delta continues the item with its index and type; without an index, the last one of its type.
    """

    def __init__(self) -> None:
        self._items: list[dict[str, object]] = []

    def push(self, deltas: object) -> None:
        """Read the deltas of one chunk."""
        for delta in deltas if isinstance(deltas, list) else ():
            if isinstance(delta, Mapping):
                self._add(delta)

    def items(self) -> Iterator[str]:
        """Return the items as JSON text, in the order in which they began."""
        for item in self._items:
            yield json.dumps(item, ensure_ascii=False, separators=(",", ":"))

    def _add(self, delta: Mapping[str, object]) -> None:
        item = self._continued(delta)
        if item is None:
            self._items.append(dict(delta))
            return
        for name, value in delta.items():
            before = item.get(name)
            if name in _GROWING and isinstance(before, str) and isinstance(value, str):
                item[name] = before + value
            elif value is not None:
                item[name] = value

    def _continued(self, delta: Mapping[str, object]) -> dict[str, object] | None:
        last = self._items[-1] if self._items else None
        same = ("type", "index", "id")
        if last is None or any(
            last.get(name) != delta.get(name)
            for name in same
            if last.get(name) is not None and delta.get(name) is not None
        ):
            return None
        return last
