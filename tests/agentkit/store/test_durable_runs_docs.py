"""docs/durable-runs.md: its blocks do what the page says, and what it names is there."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

from agentkit.store import SqlJournal
from agentkit.store.schema import metadata

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "durable-runs.md").read_text("utf-8")
_SEAM = ("prepare", "latest", "save", "load", "claim", "held")
"""What the loop calls."""
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)


def test_the_blocks_run_one_after_the_other_and_print_what_the_page_shows() -> None:
    assert PAGE.count("```text") == sum(bool(output) for _, output in BLOCKS) > 5
    names: dict[str, Any] = {"__name__": "durable_runs_page"}
    for code, output in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/durable-runs.md", "exec"), names)
        assert printed.getvalue() == output, code


def test_every_table_and_method_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(agentkit_\w+)` +\|", PAGE, re.MULTILINE)
    assert set(rows) == set(metadata.tables)
    for name, _ in inspect.getmembers(SqlJournal, inspect.isfunction):
        if not name.startswith("_") and name not in _SEAM:
            assert f"{name}(" in PAGE, name


def test_every_file_and_link_that_is_named_is_there() -> None:
    for path in set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE)):
        assert (ROOT / path).is_file(), path
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    links = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    assert len(links) > 8
    assert links <= headings
