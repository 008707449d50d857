"""The program in docs/testing.md prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_the_page_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    exec(compile(program, str(PAGE), "exec"), {"__name__": "testing_page"})
    assert capsys.readouterr().out == printed
