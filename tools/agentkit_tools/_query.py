"""What a person or model types, as an expression for FTS5 that is always valid."""

from __future__ import annotations

import re

from agentkit_tools._chunking import UNSPACED, WORD, humps
from agentkit_tools._errors import Refused

MAX_QUERY_CHARS = 1000
_MAX_TERMS = 64

_PIECE = re.compile(r'"([^"]*)"|(\S+)')


def match_expression(query: str) -> str:
    """Quoted phrases must all be there; of other words any may be, and more of them rank higher.

    `word*` finds all words that begin so. Every word is quoted, so that nothing in a query is
    an operator of FTS5 or an error of its syntax.

    Raises:
        Refused: there is no word in the query, or there are too many.
    """
    phrases: dict[str, None] = {}
    words: dict[str, None] = {}
    for phrase, piece in _PIECE.findall(query.replace("\0", " ")):
        if phrase:
            phrases.update(dict.fromkeys(_phrase(phrase)))
        else:
            words.update(dict.fromkeys(_words(piece)))
    if not phrases and not words:
        raise Refused(
            f'there is no word in {query!r}; give words, a "quoted phrase" or the start of a '
            "word with a star, such as pars*"
        )
    if len(phrases) + len(words) > _MAX_TERMS:
        raise Refused(f"the query has more than {_MAX_TERMS} words; give those that matter")
    if not phrases:
        return " OR ".join(words)
    required = " AND ".join(phrases)
    # A phrase stands among the optional words too, so that they rank and exclude nothing.
    return f"{required} AND ({' OR '.join([next(iter(phrases)), *words])})" if words else required


def _phrase(text: str) -> list[str]:
    """A phrase; where scripts change, one for each stretch."""
    spaced = UNSPACED.sub(" ", text)
    words = WORD.findall(spaced)
    runs = [_characters(run) for run in UNSPACED.findall(text)]
    return [_quoted(" ".join(words)), *runs] if words else runs


def _words(piece: str) -> list[str]:
    """The terms of one piece without spaces, which can hold several words."""
    found: list[str] = []
    matches = list(WORD.finditer(UNSPACED.sub(" ", piece)))
    for match in matches:
        word = match.group()
        is_start = match is matches[-1] and piece.endswith("*")
        found.append(f"{_quoted(word)} *" if is_start else _quoted(word))
        found += [_quoted(inner) for inner in humps(word)]
    for run in UNSPACED.findall(piece):
        pairs = [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        found += [_characters(pair) for pair in pairs]
    return found


def _characters(run: str) -> str:
    return f"inside : {_quoted(' '.join(run))}"


def _quoted(words: str) -> str:
    return f'"{words.lower()}"'
