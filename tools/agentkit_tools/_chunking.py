"""Text to chunks with line numbers, and the words that are inside words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ENOUGH_CHARS = 800
"""From this size on, a chunk ends at the next empty line."""

_MAX_CHARS = 1600
_MAX_LINES = 60

APART = "\ue000"
"""A word that no text has: between runs of characters, so that no phrase reaches over it."""

WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    r"\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""A run in a script that parts words by no spaces (Thai, Lao, Burmese, Khmer, kana, Han), or seldom
where a reader would (Hangul)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some whole lines of a text, or a piece of one long line. Lines count from 1."""

    first_line: int
    last_line: int
    text: str


def chunks_of(lines: list[str]) -> Iterator[Chunk]:
    """All lines in chunks, each line in exactly one, except those that are longer than a chunk."""
    held: list[str] = []
    n_chars = 0
    for number, line in enumerate(lines, start=1):
        if held and (
            n_chars + len(line) > _MAX_CHARS
            or len(held) >= _MAX_LINES
            or (n_chars >= _ENOUGH_CHARS and not line.strip())
        ):
            yield Chunk(number - len(held), number - 1, "\n".join(held))
            held, n_chars = [], 0
        if len(line) > _MAX_CHARS:
            for start in range(0, len(line), _MAX_CHARS):
                yield Chunk(number, number, line[start : start + _MAX_CHARS])
            continue
        held.append(line)
        n_chars += len(line) + 1
    if held:
        yield Chunk(len(lines) - len(held) + 1, len(lines), "\n".join(held))


def humps(word: str) -> list[str]:
    """The words inside a camel-case identifier; nothing for another word."""
    pieces = _HUMP.sub(" ", word).split()
    return pieces if len(pieces) > 1 else []


def inner_words(text: str) -> str:
    """What the tokenizer does not part: words inside identifiers, characters of unspaced runs."""
    found: list[str] = []
    for word in WORD.findall(text):
        found += humps(word)
    for run in UNSPACED.findall(text):
        found += [APART, *run]
    return " ".join(found)
