"""Regular expressions over text that has not all arrived: matched, cannot match, or more needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PartialMatch = re.Match[str] | Literal["more", "never"]
"""A match at the start; "more" if more text could make one; "never" if no text can."""


@dataclass(frozen=True, slots=True)
class Part:
    """A step of a sequence: what it is when whole, and what any beginning of it looks like."""

    whole: str
    beginning: str


SPACE = Part(r"[ \t\r\n]{0,64}", r"[ \t\r\n]{0,64}")
"""Bounded, so that endless white space is no match in the making."""


def literal(text: str) -> list[Part]:
    """The characters of `text`."""
    return [Part(re.escape(character), "") for character in text]


def quoted(group: str, max_chars: int) -> list[Part]:
    """A JSON string, its inside captured as `group`."""
    inside = rf'(?:[^"\\\x00-\x1f]|{_ESCAPE}){{0,{max_chars}}}'
    beginning = rf"{inside}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?"
    return [*literal('"'), Part(rf"(?P<{group}>{inside})", beginning), *literal('"')]


_ESCAPE = r'\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})'
"""A JSON escape that stands for a character by itself (no halves of surrogate pairs)."""


class Pattern:
    """Parts, one after the other. The last one must end in a fixed character or a look-ahead."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._whole = re.compile("".join(part.whole for part in parts), re.DOTALL)
        plain = [re.sub(r"\?P<\w+>", "?:", part.whole) for part in parts]
        beginnings = ("".join(plain[:k]) + part.beginning for k, part in enumerate(parts))
        self._beginning = re.compile("|".join(beginnings), re.DOTALL)

    def match(self, text: str) -> PartialMatch:
        """Compare the start of `text`."""
        found = self._whole.match(text)
        if found is not None:
            return found
        return "more" if self._beginning.fullmatch(text) else "never"
