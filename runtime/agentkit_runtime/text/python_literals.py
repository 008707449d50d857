"""Python's literals, as models write them in calls: where one ends, and the same as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_NOTABLE = re.compile(r"""["'\[\](){},]""")
_IN_STRING = {quote: re.compile(rf"[\\{quote}]") for quote in "\"'"}
_WORDS = {"True": "true", "False": "false", "None": "null"}
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[A-Za-z_]\w*)|(?P<other>.)""",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<code>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4})|(?P<one>.))",
    re.DOTALL,
)
_CHARACTERS = {
    **{"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"},
    **{"\\": "\\", "'": "'", '"': '"', "\n": ""},
}


class LiteralExtent:
    """Finds the comma or bracket behind a literal, in text that arrives in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def feed(self, text: str) -> int | None:
        """Index in `text` of what ends the literal; None if it goes on."""
        position = 0
        while position < len(text):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            pattern = _IN_STRING[self._quote] if self._quote else _NOTABLE
            found = pattern.search(text, position)
            if found is None:
                return None
            if not self._quote and self._depth == 0 and found[0] in ",)]}":
                return found.start()
            self._note(found[0])
            position = found.end()
        return None

    def _note(self, character: str) -> None:
        if character == "\\":
            self._escaped = True
        elif self._quote:
            self._quote = ""
        elif character in "\"'":
            self._quote = character
        elif character in "[({":
            self._depth += 1
        elif character in "])}":
            self._depth -= 1


def literal_of(value: str) -> str:
    """A literal from a value's JSON text: that text, except for the words that Python has."""
    return next((word for word, name in _WORDS.items() if name == value), value)


def json_of(literal: str) -> str:
    """JSON text of a literal. What is none, such as the name of a variable, is a string."""
    text = literal.strip()
    if is_json(text):
        return text
    translated = "".join(_translated(text))
    return translated if is_json(translated) else json.dumps(text, ensure_ascii=False)


def is_json(text: str) -> bool:
    """Whether `text` is strict JSON."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _translated(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        if found["text"] is not None:
            inside = _ESCAPE.sub(_character, found["text"][1:-1])
            yield json.dumps(inside, ensure_ascii=False)
        elif found["word"] is not None:
            yield _WORDS.get(found["word"], found["word"])
        else:
            yield {"(": "[", ")": "]"}.get(found["other"], found["other"])


def _character(escape: re.Match[str]) -> str:
    if escape["code"] is None:
        # One that Python does not know stands for itself.
        return _CHARACTERS.get(escape["one"], escape[0])
    code = int(escape["code"][1:], 16)
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code < 0xE000 else chr(code)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")
