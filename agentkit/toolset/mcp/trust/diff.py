"""How two forms of a tool, or a server and its lock, differ; in lines that a person can read."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.toolset.mcp.trust.flag import visible
from agentkit.toolset.mcp.trust.lock import ApprovedTool
from agentkit.toolset.tool import ToolSpec

_LONGEST = 4_000
"""A longer diff is cut: it goes to logs and terminals, and the rest is in the file."""


@dataclass(frozen=True, slots=True)
class LockDifference:
    """How a server's tools differ from what was approved; names are the server's own, sorted."""

    added: tuple[str, ...]
    """Offered, and not approved."""
    changed: tuple[str, ...]
    """Not any more what was approved."""
    removed: tuple[str, ...]
    """Approved, and not offered any more."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def compare(
    approved: Mapping[str, ApprovedTool], offered: Mapping[str, ToolSpec]
) -> LockDifference:
    """Return how what a server offers differs from what was approved of it."""
    return LockDifference(
        added=tuple(sorted(offered.keys() - approved.keys())),
        changed=tuple(
            name
            for name in sorted(offered.keys() & approved.keys())
            if not approved[name].covers(offered[name])
        ),
        removed=tuple(sorted(approved.keys() - offered.keys())),
    )


def describe_change(old: ToolSpec | None, new: ToolSpec | None) -> str:
    """Return a unified diff of what a model reads of a tool. None: the tool was, or is, not there.

    Descriptions come line by line, schemas as indented JSON. Nothing in it is unseen; over 4,000
    characters it is cut. Empty where both read the same.
    """
    before, after = _lines(old), _lines(new)
    lines = list(difflib.unified_diff(before, after, "before", "now", lineterm="", n=2))
    text = "\n".join(lines)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST].rpartition(chr(10))[0]}\n[... {len(text) - _LONGEST} characters more]"


def _lines(spec: ToolSpec | None) -> list[str]:
    if spec is None:
        return []
    schema = json.dumps(spec.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return [*visible(spec.description).split("\n"), *visible(schema).split("\n")]
