"""JSON of any size, read without keeping the interpreter from other threads.

`json.loads` in a thread stops all others until it is done: its C code never gives the interpreter
back, and a body of 12 MB of empty lists takes it a second. Here Python code runs between any two
values, and there the interpreter changes hands. It also rests as long as it works: an engine's step
asks for the interpreter hundreds of times, and would wait for each up to 5 ms.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Final

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.readable import MAX_DEPTH

MAX_VALUES: Final = 1_000_000
"""JSON values of a body. Lists of token ids are the longest that anybody needs."""

MAX_CONTAINERS: Final = 200_000
"""Lists and objects of a body; each becomes a thing that is checked by itself."""

_FEW: Final = 100_000
"""Commas and brackets up to which C code reads the lists, a few milliseconds long."""

_WORK_S: Final = 0.002
"""Seconds of work before as long a rest."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_LEAF: Final = json.JSONDecoder()


def loads(raw: bytes) -> object:
    """The value of a JSON text. May take seconds; for a thread.

    Raises:
        ValueError: it is no JSON (`json.JSONDecodeError`), or no text.
        ApiError: 400, it has too many values.
    """
    text = raw.decode(json.detect_encoding(raw), "surrogatepass")
    if text.count(",") + text.count("[") <= _FEW:
        return json.loads(text, object_pairs_hook=_Objects().made)
    return _Reader(text).whole()


class _Rests:
    """Sleeps for half of the time."""

    def __init__(self) -> None:
        self._due_s = time.perf_counter() + _WORK_S

    def perhaps(self) -> None:
        """Sleep, if it is time."""
        if time.perf_counter() >= self._due_s:
            time.sleep(_WORK_S)
            self._due_s = time.perf_counter() + _WORK_S


class _Objects:
    """Makes objects in Python, so that the interpreter can change hands at each."""

    def __init__(self) -> None:
        self._rests = _Rests()

    def made(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        """An object of its members."""
        self._rests.perhaps()
        return dict(pairs)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._n_values = self._n_containers = 0
        self._rests = _Rests()

    def whole(self) -> object:
        value, end = self._value(self._behind_space(0), 0)
        if self._behind_space(end) != len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, end)
        return value

    def _value(self, at: int, depth: int) -> tuple[object, int]:
        self._n_values += 1
        if not self._n_values % 64:
            self._rests.perhaps()
        _check_count(self._n_values, MAX_VALUES, "values")
        opening = self._text[at : at + 1]
        if opening not in ("[", "{"):
            return _LEAF.raw_decode(self._text, at)
        self._n_containers += 1
        _check_count(self._n_containers, MAX_CONTAINERS, "lists and objects")
        if depth > MAX_DEPTH:
            raise ApiError(f"the body is nested deeper than {MAX_DEPTH} levels")
        if opening == "[":
            values: list[object] = []
            return values, self._items(at, "]", lambda at: self._item(values, at, depth + 1))
        members: dict[str, object] = {}
        return members, self._items(at, "}", lambda at: self._member(members, at, depth + 1))

    def _items(self, at: int, closing: str, read: Callable[[int], int]) -> int:
        """Read what stands between brackets; where that ends."""
        text, at = self._text, self._behind_space(at + 1)
        if text.startswith(closing, at):
            return at + 1
        while True:
            at = self._behind_space(read(at))
            if text.startswith(closing, at):
                return at + 1
            at = self._behind(",", at)

    def _item(self, values: list[object], at: int, depth: int) -> int:
        value, end = self._value(at, depth)
        values.append(value)
        return end

    def _member(self, members: dict[str, object], at: int, depth: int) -> int:
        if not self._text.startswith('"', at):
            raise json.JSONDecodeError("Expecting a name in quotes", self._text, at)
        name, at = _LEAF.raw_decode(self._text, at)
        members[name], end = self._value(self._behind(":", self._behind_space(at)), depth)
        return end

    def _behind(self, sign: str, at: int) -> int:
        if not self._text.startswith(sign, at):
            raise json.JSONDecodeError(f"Expecting {sign!r}", self._text, at)
        return self._behind_space(at + 1)

    def _behind_space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        assert found is not None, "matches nothing at least"
        return found.end()


def _check_count(n: int, most: int, what: str) -> None:
    if n > most:
        raise ApiError(
            f"the body has more than {most:,} {what}; send less at a time",
            code="request_too_complex",
        )
