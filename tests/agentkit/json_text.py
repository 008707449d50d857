"""JSON as it is written: parts of a body, with the spaces and digits that were sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,:]*")


def members(text: str) -> Iterator[tuple[str, str]]:
    """The members of a JSON object, their values as they are written."""
    at = _skip(text, 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _skip(text, at)
        _, at = _DECODER.raw_decode(text, start)
        yield name, text[start:at]
        at = _skip(text, at)


def elements(text: str) -> Iterator[str]:
    """The elements of a JSON array as they are written."""
    at = _skip(text, 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
