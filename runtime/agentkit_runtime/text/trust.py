"""Keeps the text of requests from becoming special tokens.

A chat template puts strings from outside between its own special tokens, and the result is one
string. So that `<|im_end|>` in a user's message cannot end the message, every string from outside
is *marked* before it is rendered: a noncharacter that occurs in no input is put inside each special
token's text. The tokenizer then finds only the template's own special tokens, and drops the marks
from the pieces between them.

A string that ends in the beginning of a special token gets a mark at its end, because the template
may put another string from outside right behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agentkit_runtime.errors import RequestRejected

NONCHARACTERS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
"""U+FDD0..U+FDEF: Unicode reserves them for use inside a process, so real text has none."""


def choose_mark(texts: Sequence[str]) -> str:
    """The first noncharacter that is in none of `texts`."""
    for mark in NONCHARACTERS:
        if not any(mark in text for text in texts):
            return mark
    raise RequestRejected("the text uses all 32 noncharacters U+FDD0..U+FDEF; remove them")


class Marker:
    """Puts marks into strings from outside, for one set of special tokens.

    The texts must have at least two characters: a mark has to fit inside.
    """

    def __init__(self, special_texts: Iterable[str]) -> None:
        texts = sorted(set(special_texts))
        self._inside = _starts_pattern(texts)
        prefixes = {text[:length] for text in texts for length in range(1, len(text))}
        self._longest_prefix = max(map(len, prefixes), default=0)
        self._prefixes = prefixes

    def mark(self, text: str, mark: str) -> str:
        """`text` with `mark` put into every special token's text, and behind a dangling start."""
        if self._inside is None:
            return text
        marked = self._inside.sub(lambda match: match[0] + mark, text)
        return marked + mark if self._dangles(text) else marked

    def _dangles(self, text: str) -> bool:
        lengths = range(1, min(self._longest_prefix, len(text)) + 1)
        return any(text[-length:] in self._prefixes for length in lengths)


def _starts_pattern(texts: list[str]) -> re.Pattern[str] | None:
    """Matches the first character of every occurrence, overlapping ones too."""
    if not texts:
        return None
    whole = "|".join(re.escape(text) for text in texts)
    return re.compile(f"(?={whole}).", re.DOTALL)
