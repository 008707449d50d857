"""Lines of a text with their numbers, as many as an answer holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentkit_tools._errors import Refused
from agentkit_tools._text import fitting, n_lines, shown_line

MAX_READ_LINES = 400
"""What one read answers with at most; its characters are bounded by `MAX_ANSWER_CHARS`."""

_MAX_LINE_NUMBER = 1_000_000_000

Start = Annotated[int, Field(ge=1, le=_MAX_LINE_NUMBER, description="first line, from 1")]
End = Annotated[
    int | None, Field(le=_MAX_LINE_NUMBER, description="last line; without it, as many as fit")
]


def show_lines(name: str, lines: list[str], start: int, end: int | None, note: str = "") -> str:
    """Lines `start` to `end` with a head that says which they are, and how to go on.

    Raises:
        Refused: the range is outside the text, or the wrong way round.
    """
    if not lines:
        return f"{name}: empty, 0 lines{note}"
    if start > len(lines):
        raise Refused(f"{name!r} has {n_lines(len(lines))}; start must be at most {len(lines)}")
    if end is not None and end < start:
        raise Refused(f"end must be at least start, which is {start}, and not {end}")
    wanted = len(lines) if end is None else min(end, len(lines))
    shown = fitting(
        with_numbers(lines[start - 1 : min(wanted, start + MAX_READ_LINES - 1)], start),
        len(name) + len(note),
    )
    last = start + len(shown) - 1
    head = f"{name}: lines {start}-{last} of {len(lines)}{note}"
    more = [f"[cut here; go on with start={last + 1}]"] if last < wanted else []
    return "\n".join([head, *shown, *more])


def with_numbers(lines: list[str], start: int) -> list[str]:
    """Lines with their numbers, of which the first is `start`."""
    width = len(str(start + len(lines) - 1)) + 2
    return [
        f"{number:>{width}}| {shown_line(line)}" for number, line in enumerate(lines, start=start)
    ]
