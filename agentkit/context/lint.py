"""Finds text in the stable tiers that will be different next time, which breaks the prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TypeAlias

from agentkit.context.lint_days import today
from agentkit.context.lint_patterns import Sighting, sightings
from agentkit.context.segment import Document, Segment, SystemText, ToolList
from agentkit.context.tier import Tier
from agentkit.warn import warn_user

SourceFinder: TypeAlias = Callable[[Segment, str], str | None]
"""Returns the line that supplied a piece of a segment's text, e.g. `app.py:12`, if it is known."""


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
    source: str | None = None
    """The line that supplied it, e.g. `app.py:12`; None: not known."""

    def __str__(self) -> str:
        where = self.segment if self.source is None else f"{self.segment} ({self.source})"
        return f"{self.kind} {self.text!r} in {where}: {self.fix}"


def lint(
    segment: Segment,
    source_of: SourceFinder | None = None,
    *,
    days: frozenset[date] | None = None,
) -> tuple[Finding, ...]:
    """Return what looks volatile in a SYSTEM or TOOLS segment; other tiers may hold anything.

    Args:
        segment: what to search.
        source_of: finds the line that supplied a piece of its text.
        days: on which it was built, by default today: that date is volatile, others are not.
    """
    return tuple(_findings(segment, source_of, today() if days is None else days))


def warn_volatile(
    segments: tuple[Segment, ...], owner: str, source_of: SourceFinder | None = None
) -> None:
    """Emit one `VolatileTextWarning` for each finding; `owner` is the name of the agent."""
    for segment in segments:
        for finding in lint(segment, source_of):
            warn_user(f"agent {owner!r}: {finding}", VolatileTextWarning)


def name_of(segment: Segment) -> str:
    """Return what people call a segment: `system/role`, `tools`, `knowledge 'guide.md'`."""
    if isinstance(segment.content, Document):
        return f"{segment.tier} {segment.content.uri!r}"
    return f"{segment.tier}/{segment.part}" if segment.part else str(segment.tier)


def fix_for(tier: Tier) -> str:
    """Return what to do about text of this tier that changes."""
    return _FIXES[tier]


def _findings(
    segment: Segment, source_of: SourceFinder | None, days: frozenset[date]
) -> Iterator[Finding]:
    text = _stable_text(segment)
    for sighting in _seen(text, days):
        found = text[sighting.start : sighting.end]
        yield Finding(
            segment=name_of(segment),
            kind=sighting.kind,
            text=found,
            fix=sighting.fix or fix_for(segment.tier),
            source=None if source_of is None else source_of(segment, found),
        )


@lru_cache(maxsize=32)
def _seen(text: str, days: frozenset[date]) -> tuple[Sighting, ...]:
    # Programs make the same agent again for each request of theirs.
    return tuple(sightings(text, days))


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
    Tier.KNOWLEDGE: (
        "give each run the same version of the documents, without when or how they were read; tell "
        "running conversations of changes by a message"
    ),
    Tier.HISTORY: "replay what was said as it was said, see Context.dump",
}
