"""How what a server offers differs from what was shown of it before. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.mcp.lists.describing import describe_change
from agentkit.toolset.tool import ToolSpec

_MOST_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChanges:
    """Final names of tools, each in code-point order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Another description or other parameters."""
    reordered: tuple[str, ...] = ()
    """The same, with the words of a list in another order, as servers write them that build texts
    from sets. That is no change."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        kinds = {"added": self.added, "removed": self.removed, "changed": self.changed}
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def compare(before: Mapping[str, ToolSpec], after: Mapping[str, ToolSpec]) -> ToolChanges:
    """Return how the tools of one server have changed, by their final names."""
    both = before.keys() & after.keys()
    differing = sorted(name for name in both if before[name].bytes != after[name].bytes)
    reordered = [name for name in differing if _unordered(before[name]) == _unordered(after[name])]
    return ToolChanges(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(name for name in differing if name not in reordered),
        reordered=tuple(reordered),
    )


def _unordered(spec: ToolSpec) -> bytes:
    """What is left of a spec when the order of its lists says nothing."""
    # Bytes: Python takes True and 1 for equal, and no model does.
    return canonical_json(_sorted(json.loads(spec.bytes)))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(member) for member in value), key=canonical_json)
    if isinstance(value, str) and "," in value:
        return sorted(part.strip(" .;:'\"{}[]()") for part in value.split(","))
    return value


def describe(
    before: Mapping[str, ToolSpec], after: Mapping[str, ToolSpec], names: Iterable[str]
) -> str:
    """Return how tools differ, line by line; bounded, since their words are the server's."""
    diffs = (describe_change(before[name], after[name], name) for name in names)
    text = "\n".join(diff for diff in diffs if diff)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}\n... (cut)"
