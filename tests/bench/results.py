"""docs/benchmarks.json: a list of {name, value, unit, note}, which several benchmarks add to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured value."""

    name: str
    value: float
    unit: str
    note: str


def write_benchmarks(path: Path, results: Iterable[Result]) -> None:
    """Replace the values of the same names, and keep all others."""
    new = {result.name: asdict(result) for result in results}
    old = json.loads(path.read_text()) if path.exists() else []
    rows = [new.pop(row["name"], row) for row in old] + list(new.values())
    path.write_text(json.dumps(rows, indent=1) + "\n")
