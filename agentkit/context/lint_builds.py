"""Compares two builds of the same agent: whatever differs would break the prefix of every run."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.context.context import Context
from agentkit.context.lint import SourceFinder, fix_for, name_of
from agentkit.context.lint_patterns import sightings
from agentkit.context.segment import Document, Segment, SystemText, ToolList
from agentkit.context.tier import Tier, rank

_AROUND = 30
"""Characters shown on both sides of a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildDifference:
    """One segment that the two builds do not share."""

    segment: str
    """Which segment, e.g. `system/role` or `tools: convert`."""
    kind: str
    """What the difference looks like: `timestamp`, `order`, `number`, `text`, `missing`, ..."""
    before: str
    """The differing text and what is around it, in the first build."""
    after: str
    """The same in the second build."""
    fix: str
    source: str | None = None
    """The line that supplied it, e.g. `app.py:12`; None: not known."""

    def __str__(self) -> str:
        where = self.segment if self.source is None else f"{self.segment} ({self.source})"
        return (
            f"{where} differs from build to build ({self.kind}):\n"
            f"  first:  {self.before!r}\n"
            f"  second: {self.after!r}\n"
            f"  {self.fix}"
        )


def compare_builds(
    first: Context, second: Context, source_of: SourceFinder | None = None
) -> tuple[BuildDifference, ...]:
    """Return what differs between two builds, first what lies first; nothing where they are equal.

    Args:
        first: a context as one build of the agent begins it.
        second: the same of another build, in the same process or in another one.
        source_of: finds the lines that supplied the *first* build's text.
    """
    return tuple(
        difference
        for before, after in _pairs(first.segments, second.segments)
        if before != after
        for difference in _differences(before, after, source_of)
    )


def _pairs(
    first: tuple[Segment, ...], second: tuple[Segment, ...]
) -> Iterator[tuple[Segment | None, Segment | None]]:
    """Segments that have the same place in both, in the order of the wire."""
    mine = {_place(segment, index): segment for index, segment in enumerate(first)}
    theirs = {_place(segment, index): segment for index, segment in enumerate(second)}
    for place in sorted(mine.keys() | theirs.keys()):
        yield mine.get(place), theirs.get(place)


def _place(segment: Segment, index: int) -> tuple[int, str, int]:
    uri = segment.content.uri if isinstance(segment.content, Document) else ""
    in_history = segment.tier is Tier.HISTORY
    return rank(segment.tier, segment.part), uri, index if in_history else 0


def _differences(
    before: Segment | None, after: Segment | None, source_of: SourceFinder | None
) -> Iterator[BuildDifference]:
    known = before or after
    assert known is not None, "a place is in one build at least"
    if isinstance(known.content, ToolList):
        for name, old, new in _tool_pairs(before, after):
            if old != new:
                source = source_of and source_of(known, f'"name":{json.dumps(name)}')
                yield _difference(known.tier, f"tools: {name}", old, new, source)
        return
    old, new = _text(before), _text(after)
    source = source_of and source_of(known, _searchable(old, new))
    yield _difference(known.tier, name_of(known), old, new, source)


def _searchable(old: str, new: str) -> str:
    """What a source file may have of the differing line: the text before the difference."""
    start, end, _ = _middle(old, new)
    return (old[:start].rpartition("\n")[2] or old[start:end]).strip()


def _difference(tier: Tier, name: str, old: str, new: str, source: str | None) -> BuildDifference:
    start, old_end, new_end = _middle(old, new)
    kind, fix = _kind(old, new, start, old_end, new_end)
    return BuildDifference(
        segment=name,
        kind=kind,
        before=_shown(old, start, old_end),
        after=_shown(new, start, new_end),
        fix=fix or fix_for(tier),
        source=source,
    )


def _kind(old: str, new: str, start: int, old_end: int, new_end: int) -> tuple[str, str | None]:
    if not old or not new:
        return "missing", "it is in one of the builds only; build it from the same things each time"
    for text, end in ((old, old_end), (new, new_end)):
        for sighting in sightings(text):
            if sighting.start < end and start <= sighting.end:
                return sighting.kind, sighting.fix
    parts = old[start:old_end], new[start:new_end]
    if sorted(_WORD.findall(old)) == sorted(_WORD.findall(new)):
        return "order", "bring it into a fixed order before it goes in, e.g. sorted(...)"
    if all(re.fullmatch(r"[\d.,:\s-]*", part) for part in parts):
        return "number", None
    return "text", None


def _middle(old: str, new: str) -> tuple[int, int, int]:
    """Where the difference begins, and where it ends in both, widened to whole words."""
    pairs = enumerate(zip(old, new, strict=False))
    start = next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))
    longest = min(len(old), len(new)) - start
    same = sum(
        1
        for _ in itertools.takewhile(
            lambda pair: pair[0] == pair[1],
            itertools.islice(zip(reversed(old), reversed(new), strict=False), longest),
        )
    )
    while start > 0 and not old[start - 1].isspace():
        start -= 1
    while same > 0 and not old[len(old) - same].isspace():
        same -= 1
    return start, len(old) - same, len(new) - same


def _shown(text: str, start: int, end: int) -> str:
    left, right = max(0, start - _AROUND), end + _AROUND
    before = "..." if left else ""
    return f"{before}{text[left:right]}{'...' if right < len(text) else ''}"


def _text(segment: Segment | None) -> str:
    match segment.content if segment else None:
        case SystemText(text=text) | Document(text=text):
            return text
        case None:
            return ""
        case _:
            assert segment is not None
            return segment.data.decode()


def _tool_pairs(before: Segment | None, after: Segment | None) -> Iterator[tuple[str, str, str]]:
    mine, theirs = _tools(before), _tools(after)
    for name in sorted(mine.keys() | theirs.keys()):
        yield name, mine.get(name, ""), theirs.get(name, "")


def _tools(segment: Segment | None) -> dict[str, str]:
    if segment is None or not isinstance(segment.content, ToolList):
        return {}
    tools = json.loads(segment.content.data)
    return {tool["name"]: json.dumps(tool, ensure_ascii=False, sort_keys=True) for tool in tools}


_WORD = re.compile(r"\w+")
