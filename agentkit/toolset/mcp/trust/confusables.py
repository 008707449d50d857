"""Letters that look like others: a small table, for names and for words that should not be read."""

from __future__ import annotations

import unicodedata

_PAIRS = {
    # Cyrillic
    "\u0430": "a", "\u0435": "e", "\u043e": "o", "\u0440": "p", "\u0441": "c", "\u0443": "y",
    "\u0445": "x", "\u0456": "i", "\u0458": "j", "\u0455": "s", "\u0501": "d", "\u051b": "q",
    "\u051d": "w", "\u04bb": "h", "\u04cf": "l", "\u043a": "k", "\u043c": "m", "\u0442": "t",
    "\u043d": "h", "\u0432": "b", "\u0433": "r", "\u043f": "n",
    # Greek
    "\u03b1": "a", "\u03bf": "o", "\u03c1": "p", "\u03bd": "v", "\u03c5": "u", "\u03b9": "i",
    "\u03ba": "k", "\u03c7": "x", "\u03c4": "t", "\u03b7": "n", "\u03b5": "e", "\u03c9": "w",
    "\u03b3": "y", "\u03f2": "c",
    # Armenian and others
    "\u0585": "o", "\u057d": "u", "\u0570": "h", "\u0578": "n", "\u0561": "w", "\u0581": "g",
    "\u0261": "g", "\u0131": "i", "\u0269": "i", "\u1d0f": "o", "\u1d04": "c", "\ua731": "s",
}  # fmt: skip
"""Case-folded letters to the ASCII letters that they look like."""
_TABLE = str.maketrans(_PAIRS)


def folded(text: str) -> str:
    """Return a text without differences of form: width, style, case, and letters of one look."""
    if text.isascii():
        return text.casefold()
    text = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    return text.casefold().translate(_TABLE)
