"""Runs one regular expression over some texts, in a process that can be killed.

Python's `re` can take exponential time and holds the interpreter lock meanwhile, so no thread can
stop it. Reads one JSON request from stdin, writes one JSON reply to stdout:

    {"pattern": str, "ignore_case": bool, "texts": [[line, ...], ...], "limit": int, "cpu_s": int}
    {"matches": [[text, line, start], ...]}    0-based, at most `limit`
"""

from __future__ import annotations

import json
import re
import sys


def find(
    pattern: re.Pattern[str], texts: list[list[str]], limit: int
) -> list[tuple[int, int, int]]:
    """The first match of each line that has one, as (text, line, start), up to a limit."""
    matches: list[tuple[int, int, int]] = []
    for text_index, lines in enumerate(texts):
        for line_index, line in enumerate(lines):
            if match := pattern.search(line):
                matches.append((text_index, line_index, match.start()))
                if len(matches) >= limit:
                    return matches
    return matches


def main() -> None:
    """Serve the one request."""
    request = json.load(sys.stdin)
    _limit_cpu(request["cpu_s"])
    pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    json.dump({"matches": find(pattern, request["texts"], request["limit"])}, sys.stdout)


def _limit_cpu(cpu_s: int) -> None:
    """A second net, should the parent die before it can kill this process."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))


if __name__ == "__main__":
    main()
