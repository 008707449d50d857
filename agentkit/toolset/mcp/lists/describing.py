"""Two forms of a tool, as a diff that a person can read."""

from __future__ import annotations

import difflib
import json

from agentkit.toolset.mcp.trust.flag import visible
from agentkit.toolset.tool import ToolSpec

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
    diff = difflib.unified_diff(_lines(old), _lines(new), before, now, lineterm="", n=2)
    text = "\n".join(diff)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST].rpartition(chr(10))[0]}\n[... {len(text) - _LONGEST} characters more]"


def _lines(spec: ToolSpec | None) -> list[str]:
    if spec is None:
        return []
    schema = json.dumps(spec.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return [*visible(spec.description).split("\n"), *visible(schema).split("\n")]
