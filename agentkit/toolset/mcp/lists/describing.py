"""Two forms of a tool, as a diff that a person can read."""

from __future__ import annotations

import difflib
import json

from agentkit.toolset.mcp.trust.flag import visible
from agentkit.toolset.tool import ToolSpec

_MOST_LINES = 1_000
_CONTEXT = 2
"""Lines around what differs."""
_LONGEST = 4_000
"""A longer diff is cut: its words are the server's, and it goes to logs and terminals."""


def describe_change(old: ToolSpec | None, new: ToolSpec | None, name: str = "") -> str:
    """Return a unified diff of what a model reads of a tool. None: the tool was, or is, not there.

    Descriptions come line by line, schemas as indented JSON. Nothing in it is unseen; over 4,000
    characters it is cut. Empty where both read the same.

    Args:
        old: before.
        new: now.
        name: for the heading.
    """
    before, now = f"{name} before".strip(), f"{name} now".strip()
    text = "\n".join(_diff(_lines(old), _lines(new), before, now))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST].rpartition(chr(10))[0]}\n[... {len(text) - _LONGEST} characters more]"


def _diff(old: list[str], new: list[str], before: str, now: str) -> list[str]:
    """A unified diff. Of long texts only so many lines are compared, from the first that differs:
    the time for that grows with their square, and they are the server's."""
    start = n_left_out = 0
    if max(len(old), len(new)) > _MOST_LINES:
        n_first = _n_equal(old, new)
        n_last = max(0, _n_equal(old[n_first:][::-1], new[n_first:][::-1]) - _CONTEXT)
        start = max(0, n_first - _CONTEXT)
        old, new = (each[start : len(each) - n_last] for each in (old, new))
        n_left_out = sum(max(0, len(each) - _MOST_LINES) for each in (old, new))
        old, new = old[:_MOST_LINES], new[:_MOST_LINES]
    diff = list(difflib.unified_diff(old, new, before, now, lineterm="", n=_CONTEXT))
    if diff and start:
        diff.insert(2, f"[lines are counted from line {start + 1}]")
    return [*diff, f"[{n_left_out} lines were not compared]"] if n_left_out else diff


def _n_equal(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _lines(spec: ToolSpec | None) -> list[str]:
    if spec is None:
        return []
    schema = json.dumps(spec.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return [*visible(spec.description).split("\n"), *visible(schema).split("\n")]
