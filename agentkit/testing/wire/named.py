"""Texts that are secret because of the name of their field: in JSON, in forms, in URLs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote_plus

_NAME = (
    r"(?:[\w-]*(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|client[_-]?assertion"
    r"|(?:access|refresh|id|auth|bearer|session|security)[_-]?token|secret|password|passwd)"
    r"|(?:proxy-)?authorization|passphrase)"
)
"""Narrower than for headers: a prompt's cache key and the tokens of an answer are no secrets."""
_FIELD = re.compile(rf'(?i)("{_NAME}"\s*:\s*")((?:[^"\\]|\\.)+)')
_FIELD_IN_TEXT = re.compile(
    rf'(?i)(?<!\\)((\\+"){_NAME}\2\s*:\s*\2)(.+?)(?=(?<!\\)\2)'  # JSON that is a text in JSON
)
_PARAMETER = re.compile(rf"(?i)((?<![\w-]){_NAME}=)([^\s&\"'\\<>]+)")


def removed_by_name(text: str, put: str) -> str:
    """Return a text with what is secret by the name of its field replaced."""

    def instead(match: re.Match[str]) -> str:
        return match[1] + put

    for pattern in (_FIELD, _FIELD_IN_TEXT, _PARAMETER):
        text = pattern.sub(instead, text)
    return text


def secrets_by_name(text: str) -> Iterator[str]:
    """Yield what is secret by the name of its field, as it was before it was escaped."""
    for match in _FIELD.finditer(text):
        yield _decoded(json.loads, f'"{match[2]}"', match[2])
    for match in _FIELD_IN_TEXT.finditer(text):
        yield match[3]
    for match in _PARAMETER.finditer(text):
        yield unquote_plus(match[2])


def _decoded(decode: Callable[[str], object], text: str, instead: str) -> str:
    try:
        return str(decode(text))
    except ValueError:
        return instead
