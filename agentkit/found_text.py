"""What `find_tools` answers, as text; and which tools such a text names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from agentkit.toolset import ToolSpec

_MOST_NAMES = 200
_DESCRIPTION_CHARS = 1_000
_SCHEMA_CHARS = 8_000
"""Of one tool's parameters, in an answer. A model must see them whole, so this is generous."""
_ENTRY = re.compile(r"^\d+\. ([a-zA-Z0-9_-]{1,64}):", re.MULTILINE)
_HEAD_CHARS = 64
"""At most, before the first tool of an answer."""
_NAME_CHARS = 72
"""At most, of the line of a tool without its description: its number, its name, and dots."""


def with_descriptions(found: Sequence[ToolSpec], n_hidden: int, longest: int) -> str:
    """Return the answer where definitions follow it.

    Args:
        found: the tools, best first.
        n_hidden: how many could be found.
        longest: an answer of more characters would be cut, and name fewer tools than follow.
    """
    room = (longest - _HEAD_CHARS) // len(found) - _NAME_CHARS
    lines = "\n".join(
        f"{number}. {spec.name}: {_line(spec.description, room)}"
        for number, spec in _numbered(found)
    )
    return f"These are the best of {n_hidden} tools. You have them from now on.\n{lines}"


def with_parameters(found: Sequence[ToolSpec], n_hidden: int, by: str | None) -> str:
    """Return the answer where it is all that a model sees of the tools.

    Args:
        found: the tools, best first.
        n_hidden: how many could be found.
        by: the tool by which they are called; None: by their names.
    """
    entries = "\n".join(
        f"{number}. {spec.name}: {_line(spec.description)}\n   parameters: {_parameters(spec)}"
        for number, spec in _numbered(found)
    )
    how = f"with {by}: its name, and" if by else "by its name, with"
    return (
        f"These are the best of {n_hidden} tools. Call one {how} parameters that fit the JSON "
        f"schema.\n{entries}"
    )


def names_text(names: Iterable[str]) -> str:
    """Return the names of tools, as many as one can read."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_NAMES
    return ", ".join(ordered[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def named_in(answer: str) -> list[str]:
    """Return the names of the tools that an answer shows, in its order."""
    return _ENTRY.findall(answer)


def _parameters(spec: ToolSpec) -> str:
    text = json.dumps(json.loads(spec.bytes)["parameters"], ensure_ascii=False)
    return text if len(text) <= _SCHEMA_CHARS else f"{text[:_SCHEMA_CHARS]}... (cut)"


def _numbered(found: Sequence[ToolSpec]) -> Iterator[tuple[int, ToolSpec]]:
    return enumerate(found, start=1)


def _line(text: str, room: int = _DESCRIPTION_CHARS) -> str:
    """Return a description as one line, so that none can look like the next entry."""
    line, most = " ".join(text.split()), min(room, _DESCRIPTION_CHARS)
    return line if len(line) <= most else f"{line[:most]}..."
