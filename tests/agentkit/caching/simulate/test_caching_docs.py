"""The code blocks of docs/caching.md do what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[4] / "docs" / "caching.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_code_block_of_the_page_has_its_output() -> None:
    assert len(BLOCKS) == PAGE.count("```python") == 4


@pytest.mark.parametrize(("code", "output"), BLOCKS)
def test_the_code_prints_what_the_page_shows(code: str, output: str) -> None:
    out = io.StringIO()
    names: dict[str, Any] = {"__name__": "page"}
    with contextlib.redirect_stdout(out):
        exec(compile(code, "docs/caching.md", "exec"), names)
    assert out.getvalue() == output


def test_the_page_counts_the_fan_out_as_the_simulator_does() -> None:
    """The three costs are tested in test_anthropic.py; the page must show the same."""
    for cost in ("0.80 USD", "0.64 USD", "0.128 USD"):
        assert cost in PAGE
