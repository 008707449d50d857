"""Figures of a run: collected, printed, and written to docs/benchmarks.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    name: str
    value: float
    unit: str
    note: str


@dataclass(slots=True)
class Figures:
    """What a run has measured so far."""

    rows: list[Figure] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str, note: str) -> None:
        """Add a value, and show it."""
        self.rows.append(Figure(name, round(value, 5), unit, note))
        sys.stdout.write(f"{name:48} {value:14.4f} {unit}\n")
        sys.stdout.flush()

    def value(self, name: str) -> float | None:
        """Return the value of that name, if it was measured."""
        return next((row.value for row in self.rows if row.name == name), None)


def merge(path: Path, rows: Iterable[Figure]) -> None:
    """Replace the values of the same names in a file of figures, and keep all others."""
    new = {row.name: asdict(row) for row in rows}
    old: list[Mapping[str, object]] = json.loads(path.read_text()) if path.exists() else []
    kept = [new.pop(str(row["name"]), row) for row in old]
    path.write_text(json.dumps([*kept, *new.values()], indent=1) + "\n")


def read(path: Path) -> list[Figure]:
    """Read a file of figures."""
    return [Figure(**row) for row in json.loads(path.read_text())] if path.exists() else []


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
