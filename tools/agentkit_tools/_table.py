"""Rows of a database as lines of text: one JSON array each, within bounds.

JSON keeps apart what a plain table would mix up: null and the text "NULL", 1 and the text "1", a
line feed inside a value and the end of a row.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

_LINE_ENDS = re.compile("[\x7f-\x9f\u2028\u2029]")
"""Ends of lines, and of texts in a terminal, that JSON leaves as they are."""

Cell = None | bool | int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Number:
    """A number as the database wrote it, for those that no Python type holds exactly."""

    text: str


@dataclass(slots=True, kw_only=True)
class Table:
    """Collects rows until a bound is reached.

    Attributes:
        max_rows: rows to keep.
        max_chars: of all lines together.
        max_cell_chars: a longer text is cut; of binary data a quarter of it is shown, in hex.
        skip: rows to drop first.
    """

    max_rows: int
    max_chars: int
    max_cell_chars: int
    skip: int = 0
    lines: list[str] = field(default_factory=list)
    types: list[set[str]] = field(default_factory=list)
    n_cut: int = 0
    has_more: bool = False
    _n_chars: int = 0

    def add(self, row: tuple[Cell | Number, ...]) -> bool:
        """Take a row. False: there is room for no more, and this one was dropped."""
        if self.skip:
            self.skip -= 1
            return True
        n_cut_before = self.n_cut
        line = f"[{','.join(self._shown(cell) for cell in row)}]"
        if len(self.lines) >= self.max_rows or (
            self.lines and self._n_chars + len(line) + 1 > self.max_chars
        ):
            self.has_more = True
            self.n_cut = n_cut_before
            return False
        self.lines.append(line)
        self._n_chars += len(line) + 1
        self.types = self.types or [set() for _ in row]
        for types, cell in zip(self.types, row, strict=True):
            types.add(type_name(cell))
        return True

    def reply(self, columns: list[tuple[str, str]]) -> dict[str, Any]:
        """All of it, for the parent process."""
        return {
            "columns": columns,
            "lines": self.lines,
            "has_more": self.has_more,
            "n_cut": self.n_cut,
        }

    def _shown(self, cell: Cell | Number) -> str:
        match cell:
            case Number(text):
                return text
            case bytes():
                return self._binary(cell)
            case str():
                return self._text(cell)
            case float() if not math.isfinite(cell):
                return json.dumps(str(cell))
            case _:
                return json.dumps(cell)

    def _text(self, text: str) -> str:
        if len(text) > self.max_cell_chars:
            self.n_cut += 1
            text = f"{text[: self.max_cell_chars]}... [{len(text)} characters]"
        clean = text.encode("utf-8", "replace").decode()
        shown = json.dumps(clean, ensure_ascii=False)
        return _LINE_ENDS.sub(lambda found: f"\\u{ord(found.group()):04x}", shown)

    def _binary(self, data: bytes) -> str:
        n_shown = self.max_cell_chars // 8
        if len(data) <= n_shown:
            return f'{{"hex":"{data.hex()}"}}'
        self.n_cut += 1
        return f'{{"hex":"{data[:n_shown].hex()}...","bytes":{len(data)}}}'


def type_name(cell: Cell | Number) -> str:
    """What SQLite calls the type of a value."""
    match cell:
        case None:
            return "null"
        case bytes():
            return "blob"
        case str():
            return "text"
        case float():
            return "real"
        case _:
            return "integer"
