"""What providers make of a tool, for `agentkit mcp list --check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentkit.toolset.tool import ToolSpec


def checked(spec: ToolSpec) -> dict[str, Any]:
    """Return, by provider, why it would refuse the tool, and what of its schema is lost there."""
    from agentkit.toolset.provider_forms import DIALECTS, schema_report, tool_problems

    return {
        dialect: {
            "problems": list(tool_problems(spec, dialect)),
            "notes": [asdict(note) for note in schema_report(spec, dialect)],
        }
        for dialect in DIALECTS
    }


def check_lines(providers: dict[str, Any]) -> Iterator[str]:
    """Say it, the same words of several providers once, without what is only not enforced."""
    said: dict[str, list[str]] = {}
    for dialect, found in providers.items():
        for problem in found["problems"]:
            said.setdefault(f"refused: {problem}", []).append(dialect)
        for note in found["notes"]:
            if note["effect"] != "not_enforced":
                effect = note["effect"].replace("_", " ")
                text = f"{note['pointer'] or '/'}: {effect}: {note['detail']}"
                said.setdefault(text, []).append(dialect)
    for text, dialects in said.items():
        yield f"{', '.join(dialects)}: {text}"


def is_refused(providers: dict[str, Any]) -> bool:
    """Whether a provider would refuse the tool."""
    return any(found["problems"] for found in providers.values())
