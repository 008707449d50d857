"""Refuses bodies that no reader behind can take: halves of characters, and endless nesting."""

from __future__ import annotations

import re

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.text.request_text import is_unicode

MAX_DEPTH = 100
"""Nested deeper than this, a schema or template could not be walked safely."""


def require_readable(value: object, path: str = "", depth: int = 0) -> None:
    """Raise `ApiError` (400) for deep nesting and for a string, key included, that is no text.

    JSON can spell half a character ("\\ud800").
    """
    if depth > MAX_DEPTH:
        raise ApiError(f"the body is nested deeper than {MAX_DEPTH} levels", param=_root(path))
    match value:
        case str():
            if not value.isascii() and not is_unicode(value):
                raise ApiError(
                    f"{path or 'the body'} holds a lone surrogate, which is not a character",
                    param=path or None,
                )
        case dict():
            for key, item in value.items():
                require_readable(key, path, depth + 1)
                require_readable(item, f"{path}.{key}" if path else str(key), depth + 1)
        case list():
            for index, item in enumerate(value):
                require_readable(item, f"{path}[{index}]", depth + 1)
        case _:
            pass


def _root(path: str) -> str | None:
    return re.split(r"[.\[]", path)[0] or None
