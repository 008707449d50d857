"""How what a server offers differs from what was shown of it before. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.mcp.lists.describing import describe_change
from agentkit.toolset.tool import ToolSpec

_MOST_CHARS = 20_000
_COMMA = re.compile(r", ?")
_WORD = re.compile(r"[\w.*:-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChanges:
    """Final names of tools, each in code-point order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Another description or other parameters."""
    reordered: tuple[str, ...] = ()
    """The same, but for the order of words with commas between them in a parameter's default, as
    servers write it that build it from a set. That is no change to announce, and is none to
    approve either: a lock compares bytes."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        kinds = {"added": self.added, "removed": self.removed, "changed": self.changed}
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def compare(before: Mapping[str, ToolSpec], after: Mapping[str, ToolSpec]) -> ToolChanges:
    """Return how the tools of one server have changed, by their final names."""
    both = before.keys() & after.keys()
    differing = sorted(name for name in both if before[name].bytes != after[name].bytes)
    reordered = [name for name in differing if _differs_by_order(before[name], after[name])]
    return ToolChanges(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(name for name in differing if name not in reordered),
        reordered=tuple(reordered),
    )


def _differs_by_order(before: ToolSpec, after: ToolSpec) -> bool:
    """Whether nothing differs but the order of words in defaults."""
    return before.description == after.description and _same_but_for_order(
        json.loads(before.bytes), json.loads(after.bytes)
    )


def _same_but_for_order(before: object, after: object) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            _same_but_for_order(before[key], after[key])
            or (key == "default" and _is_permutation(before[key], after[key]))
            for key in before
        )
    # Bytes: Python takes True and 1 for equal, and no model does.
    return canonical_json(before) == canonical_json(after)


def _is_permutation(before: object, after: object) -> bool:
    """Whether two texts are one list of words with commas, in two orders."""
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    one, other = (sorted(_COMMA.split(text)) for text in (before, after))
    return len(before) == len(after) and one == other and all(map(_WORD.fullmatch, one))


def describe(
    before: Mapping[str, ToolSpec], after: Mapping[str, ToolSpec], names: Iterable[str]
) -> str:
    """Return how tools differ, line by line; bounded, since their words are the server's."""
    diffs = (describe_change(before[name], after[name], name) for name in names)
    text = "\n".join(diff for diff in diffs if diff)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}\n... (cut)"
