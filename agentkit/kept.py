"""Tool results that are too long for the context: kept whole with the run, and read in pages.

The model sees the head and the tail of such a result, and between them a handle for the tool
`read_result`. Which agents have that tool follows from their configuration, so that the list of
tools is the same in each of their requests: those for which `max_result_chars` is set, on the
agent or on one of its tools. For others a result over `DEFAULT_RESULT_CHARS` is cut, and the rest
is lost.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.blocks import printable
from agentkit.toolset import (
    Failed,
    Retry,
    Tool,
    ToolContext,
    ToolOutput,
    ToolPolicy,
    policy_of,
    tool,
)
from agentkit.toolset.shorten import Gap, end_near, gap_in, line_at, n_lines

if TYPE_CHECKING:
    from agentkit.saved import Memory
    from agentkit.state import RunState

DEFAULT_RESULT_CHARS = 50_000
"""Longest result that a model reads whole, in characters, where nothing else is said."""
READ_RESULT = "read_result"
"""Name of the tool."""
_MAX_KEPT_CHARS = 20_000_000
"""Of one conversation, together. Beyond it the oldest are forgotten; the newest is always kept."""
_MAX_REMEMBERED_CHARS = 100_000_000
"""Of all conversations that one agent remembers, together."""
_HANDLE = re.compile(r"r_[0-9a-f]{16}(?![0-9a-f])")
_PAGE_CHARS = 8_000
_HEADER_CHARS = 200
_MAX_PLACES = 20
_EXCERPT_CHARS = 80
"""Around a place that was found, on each side."""


def shortened(run: RunState, tool: Tool | None, output: ToolOutput) -> ToolOutput:
    """Return a tool's answer as the model reads it; one that is too long is kept in the run.

    Args:
        run: whose call it was.
        tool: the tool; None: there is none of that name.
        output: its whole answer.
    """
    limit = policy_of(tool).max_result_chars or longest_result(run)
    if len(output.content) <= limit:
        return output
    text = printable(output.content)
    handle = handle_of(text) if READ_RESULT in run.member.own_tools else None
    if handle is not None:
        run.kept = _with(run.kept, handle, text)
    return replace(output, content=head_and_tail(text, limit, handle))


def head_and_tail(text: str, limit: int, handle: str | None) -> str:
    """Return a text in part, with a note on the rest; together at most `limit` characters.

    Args:
        text: one that is longer.
        limit: at least `LEAST_RESULT_CHARS`.
        handle: by which the whole can be read; None: it is not kept.
    """
    # In the note of a gap elsewhere three numbers may be longer: a place, and two lines.
    note = _note(Gap(text, 0, len(text)), handle)
    n_note = len(note) + 3 * len(f"{len(text):,}") + len("\n\n")
    gap = gap_in(text, max(0, limit - n_note))
    return gap.around(_note(gap, handle))


def handle_of(text: str) -> str:
    """Return the handle of a text: the same for the same text, in every process."""
    return "r_" + hashlib.sha256(text.encode()).hexdigest()[:16]


def keep_named(above: RunState, below: RunState, answer: str) -> None:
    """Keep what a subagent's answer names of what the subagent has kept, for whoever reads that.

    Also where the run above cannot read it: the run above that one may be told of it.
    """
    for handle in dict.fromkeys(_HANDLE.findall(answer)):
        if (text := below.kept.get(handle)) is not None:
            above.kept = _with(above.kept, handle, text)


def without_oldest(memories: Mapping[str, Memory]) -> Mapping[str, Memory]:
    """Return memories, oldest first, without what the oldest keep where all keep too much."""
    left, counted = _MAX_REMEMBERED_CHARS, set[str]()
    newest: list[tuple[str, Memory]] = []
    for key, memory in reversed(list(memories.items())):
        size = sum(len(text) for handle, text in memory.kept.items() if handle not in counted)
        if size > left:
            newest.append((key, replace(memory, kept={})))
            continue
        newest.append((key, memory))
        left -= size
        counted |= memory.kept.keys()
    return dict(reversed(newest))


def reader_for(max_result_chars: int | None, policies: Iterable[ToolPolicy]) -> tuple[Tool, ...]:
    """Return the tool `read_result` if an agent has it by its own limit, or those of its tools."""
    limits = (max_result_chars, *(policy.max_result_chars for policy in policies))
    return () if all(limit is None for limit in limits) else (result_reader(),)


@functools.cache
def result_reader() -> Tool:
    """Return the tool `read_result`. There is one, for all teams."""
    return tool(name=READ_RESULT, idempotent=True)(_read_result)


def _read_result(
    handle: str,
    context: ToolContext[object],
    offset: int = 0,
    limit: int = _PAGE_CHARS,
    find: str = "",
) -> str:
    """Read a part of a tool result that was too long to be shown whole.

    Args:
        handle: the handle of the result, e.g. r_0f3a...
        offset: the character to begin at
        limit: how many characters to read at most
        find: a text; shows the places after the offset that have it, instead of a part
    """
    from agentkit.state import RunContext

    if not isinstance(context, RunContext):
        raise Failed("read_result works only inside the run of an agent.")
    text = context.run.kept.get(handle)
    if text is None:
        known = ", ".join(list(context.run.kept)[-_MAX_PLACES:]) or "none"
        raise Retry(f"There is no kept result {handle!r}. Kept are: {known}.")
    if not 0 <= offset < len(text) or limit < 1:
        raise Retry(
            f"Give an offset from 0 to {len(text) - 1} and a limit of at least 1, "
            f"not {offset} and {limit}."
        )
    most = max(1, longest_result(context.run) - _HEADER_CHARS)
    if find:
        return _places(text, find, offset, most)
    return _page(text, offset, min(limit, most))


def _page(text: str, start: int, size: int) -> str:
    end = end_near(text, start, start + size)
    what = f"characters {start:,} to {end:,} of {len(text):,}"
    if "\n" in text:
        first, last = line_at(text, start), line_at(text, end - 1)
        what += f", lines {first:,} to {last:,} of {n_lines(text):,}"
    more = f"go on with offset={end}" if end < len(text) else "this is the end"
    return f"[{what}; {more}]\n{text[start:end]}"


def _places(text: str, find: str, start: int, most: int) -> str:
    found = re.compile(re.escape(find), re.IGNORECASE).finditer(text, start)
    lines: list[str] = []
    left = most
    for place in found:
        excerpt = _excerpt(text, place.start(), place.end())
        line = f"offset {place.start()}, line {line_at(text, place.start()):,}: {excerpt}"
        if len(lines) == _MAX_PLACES or (lines and len(line) >= left):
            lines.append(f"[there are more; go on with offset={place.start()}]")
            break
        lines.append(line[:most])
        left -= len(line) + 1
    return "\n".join(lines) or f"[{find!r} is not in the result, from the offset {start:,} on]"


def _excerpt(text: str, start: int, end: int) -> str:
    """Return the line around a place, or a part of it."""
    begin = max(text.rfind("\n", 0, start) + 1, start - _EXCERPT_CHARS)
    line_end = text.find("\n", end)
    stop = min(len(text) if line_end < 0 else line_end, end + _EXCERPT_CHARS)
    return text[begin:stop].replace("\n", " ")


def _note(gap: Gap, handle: str | None) -> str:
    left_out = f"[... {gap.size} are left out here."
    if handle is None:
        return (
            f"{left_out} They are not kept: if you need them, call the tool again so that it "
            "gives less at once, for example with a filter, a range or a limit. ...]"
        )
    return (
        f'{left_out} The whole result is kept: {READ_RESULT}(handle="{handle}", '
        f'offset={gap.start}) goes on from here, and find="..." searches in it. ...]'
    )


def longest_result(run: RunState) -> int:
    """Return how many characters of a result a model reads whole, where its tool says nothing."""
    return run.member.agent.max_result_chars or DEFAULT_RESULT_CHARS


def _with(kept: Mapping[str, str], handle: str, text: str) -> Mapping[str, str]:
    """Return what is kept with one more; the oldest make room."""
    left = _MAX_KEPT_CHARS - len(text)
    newest = {handle: text}
    for known, older in reversed(list(kept.items())):
        left -= len(older)
        if left < 0:
            break
        newest.setdefault(known, older)
    return dict(reversed(list(newest.items())))
