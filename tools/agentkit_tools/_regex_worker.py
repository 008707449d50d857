"""Runs one regular expression over some texts, in a process that can be killed.

Python's `re` can take exponential time and holds the interpreter lock meanwhile, so no thread can
stop it; to compile a pattern can take long, too. Reads one JSON request from stdin, writes one JSON
reply to stdout:

    {"pattern": str, "ignore_case": bool, "texts": [str, ...], "limit": int,
     "limits": {"timeout_s": float, "max_memory_bytes": int, "max_file_bytes": 0}}
    {"matches": [[text, line, shown], ...]}    0-based, at most `limit`
    {"invalid": str}                           what is wrong with the pattern

It ends with an exit code and without a reply when it runs out of memory, and with its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from typing import Any

from agentkit_tools import _limits
from agentkit_tools._text import each_line, shown_match

_PR_SET_PDEATHSIG = 1
OUT_OF_MEMORY = 3
"""The exit code then."""


def find(pattern: re.Pattern[str], texts: list[str], limit: int) -> list[tuple[int, int, str]]:
    """The first match of each line that has one, as (text, line, shown), up to a limit."""
    matches: list[tuple[int, int, str]] = []
    for text_index, text in enumerate(texts):
        for line_index, line in enumerate(each_line(text)):
            if match := pattern.search(line):
                matches.append((text_index, line_index, shown_match(line, match.start())))
                if len(matches) >= limit:
                    return matches
    return matches


def main() -> None:
    """Serve the one request."""
    _end_with_parent()
    try:
        _answer(json.load(sys.stdin))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _answer(request: dict[str, Any]) -> None:
    _limits.take(**request["limits"])
    try:
        pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as error:
        json.dump({"invalid": str(error)}, sys.stdout)
        return
    json.dump({"matches": find(pattern, request["texts"], request["limit"])}, sys.stdout)


def _end_with_parent() -> None:
    """On Linux; elsewhere the bound on processor time ends what is left."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
