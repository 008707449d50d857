"""Finding a value in JSON text without losing its characters: 1.0 stays 1.0, keys keep their order.

Parsing a call's arguments and printing them again would change bytes that the next request needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def raw_value(text: str, path: Sequence[str | int]) -> str | None:
    """Return the exact text of the value at `path` (keys and indexes); None if there is none.

    Of equal keys in one object the last counts, as for `json.loads`.

    Raises:
        ValueError: the text is no JSON.
    """
    start = _skip(text, 0)
    for step in path:
        found = _member(text, start, step)
        if found is None:
            return None
        start = found
    _, end = _DECODER.raw_decode(text, start)
    return text[start:end]


def _member(text: str, start: int, step: str | int) -> int | None:
    """Return where the member of the object or array that begins at `start` begins."""
    if text[start : start + 1] != ("{" if isinstance(step, str) else "["):
        return None
    at, index, found = _skip(text, start + 1), 0, None
    while text[at : at + 1] not in ("}", "]", ""):
        key: object = index
        if isinstance(step, str):
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # behind the colon
        if key == step:
            found = at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        index += 1
    return found


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
