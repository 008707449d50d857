"""docs/teams.md: its blocks print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "teams.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_the_blocks_run_one_after_the_other_and_print_what_the_page_shows() -> None:
    assert PAGE.count("```python") == PAGE.count("```text") == len(BLOCKS) == 2
    names: dict[str, Any] = {"__name__": "teams_page"}
    for code, output in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/teams.md", "exec"), names)
        assert printed.getvalue() == output, code


def test_links_lead_somewhere() -> None:
    for path in re.findall(r"\]\((\.\./[\w/.]+)\)", PAGE):
        assert (ROOT / "docs" / path).exists(), path
