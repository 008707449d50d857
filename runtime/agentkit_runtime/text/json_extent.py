"""Finds where a JSON object ends in text that arrives in pieces."""

from __future__ import annotations

import re

_NOTABLE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class JsonExtent:
    """Counts brackets outside strings. Does not judge whether what is inside is valid JSON."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> int | None:
        """Index in `text` right behind the object's last bracket; None if it goes on.

        The first text must begin with the opening bracket.
        """
        position = 0
        while position < len(text):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            found = (_IN_STRING if self._in_string else _NOTABLE).search(text, position)
            if found is None:
                return None
            position = found.end()
            self._note(found[0])
            if self._depth == 0:
                return position
        return None

    def _note(self, character: str) -> None:
        if character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = not self._in_string
        elif character in "{[":
            self._depth += 1
        else:
            self._depth -= 1
