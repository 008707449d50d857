"""The child process of `sql`: one request on one database (see `_worker`)."""

from __future__ import annotations

import functools
import select
import sys
from collections.abc import Callable, Mapping
from typing import Any

from agentkit_tools import _limits
from agentkit_tools._errors import Refused


def main() -> None:
    """Serve the request on stdin; a statement of SQLite is broken off when stdin ends."""
    _limits.serve(functools.partial(_answer, is_unwanted=_stdin_has_ended))


def _answer(
    request: Mapping[str, Any], is_unwanted: Callable[[], bool] = lambda: False
) -> Mapping[str, Any]:
    try:
        if "path" in request:
            return _answer_sqlite(request, is_unwanted)
        from agentkit_tools import _postgres

        return _postgres.answer(request, request["timeout_s"])
    except Refused as refused:
        return {"refused": str(refused)}


def _answer_sqlite(
    request: Mapping[str, Any], is_unwanted: Callable[[], bool]
) -> Mapping[str, Any]:
    from agentkit_tools import _sqlite

    try:
        return _sqlite.answer(request, request["timeout_s"], is_unwanted)
    except _sqlite.Unfinished as unfinished:
        return {"refused": str(unfinished), "is_unfinished": True}


def _stdin_has_ended() -> bool:
    """Nothing follows the request, so that what can be read there is the end."""
    if sys.platform == "win32":
        return False
    return bool(select.select([sys.stdin], [], [], 0)[0])
