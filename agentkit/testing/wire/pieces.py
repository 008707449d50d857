"""What a streamed response says in the sum of its events, where no single one says it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator


def joined_texts(body: bytes) -> Iterator[str]:
    """Yield the texts of a stream of JSON events: those of the same field of all events, joined."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in body.splitlines():
        try:
            event = json.loads(line.removeprefix(b"data:"))
        except ValueError:
            continue
        for path, text in _texts(event, ()):
            found[path].append(text)
    for texts in found.values():
        yield "".join(texts)


def _texts(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, (*path, name))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, path)
