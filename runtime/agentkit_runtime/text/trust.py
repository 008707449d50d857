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
    return free_mark(mark for mark in NONCHARACTERS if any(mark in text for text in texts))


def free_mark(used: Iterable[str]) -> str:
    """The first noncharacter that is not among those `used`."""
    taken = frozenset(used)
    for mark in NONCHARACTERS:
        if mark not in taken:
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
        starts = "|".join(map(re.escape, sorted(prefixes, key=len, reverse=True)))
        self._dangling = re.compile(f"(?:{starts})\\Z") if prefixes else None

    def mark(self, text: str, mark: str) -> str:
        """`text` with `mark` put into every special token's text, and behind a dangling start."""
        if self._inside is None:
            return text
        marked = self._inside.sub(lambda match: match[0] + mark, text)
        return marked + mark if self._dangles(text) else marked

    def needs_mark(self, text: str) -> bool:
        """Whether `mark` would change `text`."""
        return self._inside is not None and bool(self._inside.search(text) or self._dangles(text))

    def _dangles(self, text: str) -> bool:
        return self._dangling is not None and bool(
            self._dangling.search(text, max(0, len(text) - self._longest_prefix))
        )


def _starts_pattern(texts: list[str]) -> re.Pattern[str] | None:
    """Matches the first character of every occurrence, overlapping ones too."""
    if not texts:
        return None
    whole = "|".join(re.escape(text) for text in texts)
    return re.compile(f"(?={whole}).", re.DOTALL)
