"""Long texts in part: where to cut, so that what is left can be read."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_HEAD_SHARE = 0.7
"""Of what is shown. Most results begin with what matters; logs end with it."""
_LINE_SEARCH = 0.25
"""Up to which part of a piece is given up to end it with a line."""
_WORD_SEARCH = 60
"""Up to how many characters are given up to end it with a word, or an element of a JSON list."""
_SEPARATORS = (",", ";", " ", "\t")
_JOINERS = ("\u200d", "\ufe0f")
"""What belongs to the character before it; the first also to the one behind it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What is left out of a text: from `start` to before `end`, in characters."""

    text: str
    start: int
    end: int

    @property
    def size(self) -> str:
        """How much is left out, for a reader."""
        return f"{self.end - self.start:,} of {len(self.text):,} characters{self._lines}"

    @property
    def _lines(self) -> str:
        if "\n" not in self.text:
            return ""
        first, last = line_at(self.text, self.start), line_at(self.text, self.end - 1)
        return f" (lines {first:,} to {last:,} of {n_lines(self.text):,})"

    def around(self, note: str) -> str:
        """Return what is shown, with a note in place of the rest, on a line of its own."""
        head, tail = self.text[: self.start], self.text[self.end :]
        before = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{before}{note}\n{tail}"


def gap_in(text: str, shown: int) -> Gap:
    """Return what to leave out of a text so that about `shown` characters are left, never more."""
    n_head = int(shown * _HEAD_SHARE)
    start = end_near(text, 0, n_head)
    return Gap(text, start, _start_near(text, len(text) - (shown - n_head)))


def end_near(text: str, start: int, end: int) -> int:
    """Return where a piece of text should end: at `end`, or before it where a line or word does."""
    if end >= len(text):
        return len(text)
    line = text.rfind("\n", start + int((end - start) * (1 - _LINE_SEARCH)), end)
    if line >= 0:
        return line + 1
    least = max(start + 1, end - _WORD_SEARCH)
    word = max(text.rfind(separator, least, end) for separator in _SEPARATORS)
    return word + 1 if word >= 0 else _whole_character(text, start, end)


def line_at(text: str, index: int) -> int:
    """Return the number of the line that a character is in, from 1."""
    return text.count("\n", 0, index) + 1


def n_lines(text: str) -> int:
    """Return how many lines a text has; a line feed at its end begins no further one."""
    return text.count("\n", 0, len(text) - 1) + 1


def _start_near(text: str, start: int) -> int:
    line = text.find("\n", start, start + int((len(text) - start) * _LINE_SEARCH))
    if line >= 0:
        return line + 1
    most = min(len(text), start + _WORD_SEARCH)
    words = [text.find(separator, start, most) for separator in _SEPARATORS]
    found = [word for word in words if word >= 0]
    if found:
        return min(found) + 1
    while start < len(text) and _joins(text, start):
        start += 1
    return start


def _whole_character(text: str, start: int, end: int) -> int:
    """Return an end that does not part an accent from its letter."""
    at = end
    while at > start + 1 and _joins(text, at):
        at -= 1
    return at


def _joins(text: str, index: int) -> bool:
    before, character = text[index - 1], text[index]
    if unicodedata.combining(character) > 0 or character in _JOINERS:
        return True
    return before == _JOINERS[0] or before + character == "\r\n"
