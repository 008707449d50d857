"""The parts of a call's arguments: names, and each value's own JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agentkit_runtime.text.request_text import is_unicode

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


def argument_pairs(arguments: str) -> tuple[tuple[str, str], ...] | None:
    """Each name with the JSON text of its value, as it stands; None if this is no JSON object."""
    try:
        return tuple(_pairs(arguments))
    except (ValueError, IndexError, RecursionError):
        return None


def text_of(value: str) -> str | None:
    """The text that a value's JSON stands for; None if it is no string, or not Unicode."""
    if not value.startswith('"'):
        return None
    text: str = json.loads(value)
    return text if is_unicode(text) else None


def without_escapes(arguments: str) -> str:
    """The same arguments, with top-level strings written out, and one space between parts.

    So what a template will make of a string can be looked at before it is rendered. Text that is no
    JSON object, such as a call that was cut off, becomes the value of `arguments`.
    """
    pairs = argument_pairs(arguments)
    if pairs is None:
        return json.dumps({"arguments": arguments}, ensure_ascii=False)
    return _object((name, _written(value)) for name, value in pairs)


def with_plain_names(arguments: str) -> str:
    """The same arguments, with their names written out. Text that is no JSON object stays."""
    pairs = argument_pairs(arguments)
    return arguments if pairs is None else _object(pairs)


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    parts = (f"{_written(json.dumps(name))}: {value}" for name, value in pairs)
    return f"{{{', '.join(parts)}}}"


def _written(value: str) -> str:
    text = text_of(value)
    return value if text is None else json.dumps(text, ensure_ascii=False)


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    at = _after(text, _skipped(text, 0), "{")
    while text[at] != "}":
        if pairs:
            at = _skipped(text, _after(text, at, ","))
        name, at = _DECODER.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError("a name must be a string")
        start = _skipped(text, _after(text, _skipped(text, at), ":"))
        _, end = _DECODER.raw_decode(text, start)
        pairs.append((name, text[start:end]))
        at = _skipped(text, end)
    if text[at + 1 :].strip(_SPACE):
        raise ValueError("something follows the object")
    return pairs


def _skipped(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    while text[at] in _SPACE:
        at += 1
    return at


def _after(text: str, at: int, wanted: str) -> int:
    """The place behind `wanted`, and white space."""
    if text[at] != wanted:
        raise ValueError(f"expected {wanted!r}")
    return _skipped(text, at + 1)
