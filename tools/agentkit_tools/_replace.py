"""One text in another, replaced: exactly, with the file's own line ends, and shown as a diff."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentkit_tools._errors import Refused
from agentkit_tools._text import shown_line

_MAX_SHOWN_PLACES = 20
_MAX_SHOWN_LINES = 60
"""Of the old and of the new lines of one place."""

_MAX_LOOKED_AT = 10_000
"""Places that are gone through for showing some; a line can hold millions."""

_NUMBERED = re.compile(r"^ *\d+\| ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, how often the old one was replaced, and the lines that show where."""

    text: str
    n_replaced: int
    diff: list[str]


def replaced(
    text: str, old: str, new: str, *, replace_all: bool, max_chars: int, path: str
) -> Edited:
    """Replace `old`, which occurs exactly once, or with `replace_all` each time it occurs.

    The lines of `old` and `new` are taken to end as those of the text do, unless it mixes ends.

    Raises:
        Refused: `old` is not there, not unique, or the same as `new`; the result is too long.
    """
    if not old or old == new:
        raise Refused("old must not be empty, and new must be something else than old")
    n_crlf, n_lines = text.count("\r\n"), text.count("\n")
    if n_lines and n_crlf in (0, n_lines):
        end = "\r\n" if n_crlf else "\n"
        old, new = _ending(old, end), _ending(new, end)
    first = text.find(old)
    if first < 0:
        raise Refused(_not_there(text, old, path))
    if not replace_all and text.find(old, first + 1) >= 0:
        raise Refused(
            f"old is in {path!r} more than once ({_line_numbers(text, old)}); add lines around it "
            "until it is unique, or set replace_all"
        )
    count = text.count(old)
    # Before it is made: many short pieces that become long ones could fill the memory.
    if len(text) + count * (len(new) - len(old)) > max_chars:
        raise Refused(f"{path!r} would become longer than {max_chars} characters; write less")
    return Edited(text.replace(old, new), count, _diff(text, old, new, count))


def _ending(text: str, end: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", end)


def _not_there(text: str, old: str, path: str) -> str:
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in text:
        return f"old is not in {path!r}, but is without line numbers: leave '12| ' out of it"
    words = next((line.split() for line in old.split("\n") if line.strip()), [])
    for number, line in enumerate(text.split("\n"), start=1):
        if words and line.split() == words:
            return (
                f"old is not in {path!r} as it stands; line {number} looks like its first line, so "
                "spaces or a later line differ: read the lines again and copy them exactly"
            )
    return f"old is not in {path!r}; read the file again and copy the text exactly"


def _line_numbers(text: str, old: str) -> str:
    shown: list[str] = []
    position, line, counted = text.find(old), 1, 0
    while position >= 0 and len(shown) < _MAX_SHOWN_PLACES:
        line += text.count("\n", counted, position)
        counted = position
        shown.append(str(line))
        position = text.find(old, position + 1)
    more = ", ..." if position >= 0 else ""
    return f"at line {', '.join(dict.fromkeys(shown))}{more}"


def _diff(text: str, old: str, new: str, count: int) -> list[str]:
    """The changed lines before and after, place by place. Linear in time, as difflib is not."""
    spans = _spans(text, old)
    lines: list[str] = []
    line, counted = 1, 0
    n_shown = 0
    for start, end in spans[:_MAX_SHOWN_PLACES]:
        line += text.count("\n", counted, start)
        counted = start
        before = text[start:end]
        n_shown += before.count(old)
        after = before.replace(old, new)
        lines += [f"@@ line {line} @@", *_marked("-", before), *_marked("+", after)]
    if n_shown < count:
        lines.append(f"[{count - n_shown} more places]")
    return lines


def _spans(text: str, old: str) -> list[tuple[int, int]]:
    """The whole lines around each place; places in the same lines share them."""
    spans: list[tuple[int, int]] = []
    position = text.find(old)
    n_looked_at = 0
    while position >= 0 and len(spans) <= _MAX_SHOWN_PLACES and n_looked_at < _MAX_LOOKED_AT:
        n_looked_at += 1
        seen = spans[-1][1] if spans else 0
        stop = position + len(old)
        if stop >= seen:
            line_end = text.find("\n", stop)
            end = len(text) if line_end < 0 else line_end + 1
            if position < seen:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((text.rfind("\n", seen, position) + 1 or seen, end))
        position = text.find(old, stop)
    return spans


def _marked(mark: str, text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n") if text else []
    more = [f"{mark}[{len(lines) - _MAX_SHOWN_LINES} more lines]"]
    shown = [f"{mark}{shown_line(line.removesuffix(chr(13)))}" for line in lines[:_MAX_SHOWN_LINES]]
    return shown + (more if len(lines) > _MAX_SHOWN_LINES else [])
