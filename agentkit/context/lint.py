"""Finds text in the stable tiers that will be different next time, which breaks the prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.context.segment import Segment, SystemText, ToolList
from agentkit.context.tier import Tier
from agentkit.warn import warn_user


class VolatileTextWarning(UserWarning):
    """Text in a stable tier looks as if it were different at the next build of the same agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One suspicious piece of text."""

    segment: str
    """Which segment, e.g. `system/role`."""
    kind: str
    """What it looks like, e.g. `timestamp`."""
    text: str
    """The offending text."""
    fix: str

    def __str__(self) -> str:
        return f"{self.kind} {self.text!r} in {self.segment}: {self.fix}"


def lint(segment: Segment) -> tuple[Finding, ...]:
    """Return what looks volatile in a SYSTEM or TOOLS segment; other tiers may hold anything."""
    return tuple(_findings(segment))


def warn_volatile(segments: tuple[Segment, ...], owner: str) -> None:
    """Emit one `VolatileTextWarning` for each finding; `owner` is the name of the agent."""
    for segment in segments:
        for finding in lint(segment):
            warn_user(f"agent {owner!r}: {finding}", VolatileTextWarning)


def _findings(segment: Segment) -> Iterator[Finding]:
    text = _stable_text(segment)
    name = f"{segment.tier}/{segment.part}" if segment.part else str(segment.tier)
    taken: list[tuple[int, int]] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if all(end <= other_start or start >= other_end for other_start, other_end in taken):
                taken.append((start, end))
                yield Finding(segment=name, kind=kind, text=match.group(), fix=_FIXES[segment.tier])


def _stable_text(segment: Segment) -> str:
    match segment.content:
        case SystemText(text=text):
            return text
        case ToolList(data=data):
            return data.decode()
        case _:
            return ""  # documents and messages may speak of any time, id or path


_FIXES = {
    Tier.SYSTEM: "leave it out, or return it from the agent's volatile(), which is shown last",
    Tier.TOOLS: "leave it out of the tool's description and schema; pass it when the tool runs",
}

# The first pattern that matches a piece of text names it.
_PATTERNS = (
    (
        "timestamp",
        re.compile(
            r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
        ),
    ),
    ("time of day", re.compile(r"\b(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?\b")),
    (
        "UUID",
        re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    ),
    ("memory address", re.compile(r"\bat 0x[0-9a-fA-F]{6,}\b")),
    (
        "temporary path",
        re.compile(
            r"(?:/private)?/(?:var/)?tmp/[\w.~/-]*\w|/var/folders/[\w.+/-]*\w"
            r"|[A-Za-z]:\\{1,2}(?:[^\\\s\"]+\\{1,2})*[Tt]e?mp\\{1,2}[^\s\"]*"
        ),
    ),
    ("epoch time", re.compile(r"\b1[6-9]\d{8}(?:\d{3})?(?:\.\d+)?\b")),
    (
        "hexadecimal id",
        re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b", re.IGNORECASE),
    ),
)
