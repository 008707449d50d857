"""docs/parity.md: what it says is shown by a test, is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "parity.md").read_text("utf-8")
ROWS = re.findall(r"^\| (?!\*\*|capability|---)(.+?) \|.*\| `([^`|]+)` \|$", PAGE, re.MULTILINE)


def test_each_capability_names_a_test_that_exists() -> None:
    assert len(ROWS) > 40
    for capability, named in ROWS:
        path, _, name = named.partition("::")
        where = ROOT / "tests" / path
        assert where.exists(), f"{capability}: {path}"
        if where.is_dir():
            assert list(where.rglob("test_*.py")), path
        elif name:
            text = where.read_text("utf-8")
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), named


def test_no_row_is_without_a_test() -> None:
    lines = [line for line in PAGE.splitlines() if re.match(r"\| (?!\*\*|capability)", line)]
    assert len(lines) == len(ROWS)
