"""The child process of `sql`: one request on one database (see `_worker`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_tools import _limits
from agentkit_tools._errors import Refused


def main() -> None:
    """Serve the request on stdin."""
    _limits.serve(_answer)


def _answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        if "path" in request:
            from agentkit_tools import _sqlite

            return _sqlite.answer(request, request["timeout_s"])
        from agentkit_tools import _postgres

        return _postgres.answer(request, request["timeout_s"])
    except Refused as refused:
        return {"refused": str(refused)}
