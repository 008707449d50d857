"""The code blocks of docs/caching.md do what the page says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentkit.caching.options import CacheOptions
from agentkit.caching.verdict import Cause
from agentkit.models import resolve_model
from agentkit.models.hosted.model import HostedModel

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "caching.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_code_block_of_the_page_has_its_output() -> None:
    assert len(BLOCKS) == PAGE.count("```python") == PAGE.count("```text") > 0


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_block_runs_by_itself_and_prints_what_the_page_shows(number: int) -> None:
    code, output = BLOCKS[number]
    names: dict[str, Any] = {"__name__": f"block_{number}"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, f"docs/caching.md, block {number}", "exec"), names)
    assert out.getvalue() == output, code


def test_the_whole_test_for_pytest_is_one(tmp_path: Path) -> None:
    (code,) = (code for code, _ in BLOCKS if "\ndef test_" in code)
    (tmp_path / "test_bank.py").write_text(code, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bank.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/caching.md"])
def test_model_strings_with_an_address_name_models(page: str) -> None:
    strings = re.findall(r"\b[a-z-]+:https?://[^\s`]+#[\w./-]+", (ROOT / page).read_text("utf-8"))
    assert len(strings) > 2
    for string in strings:
        assert isinstance(resolve_model(string), HostedModel), string


def test_the_table_that_is_explained_is_the_one_that_is_printed() -> None:
    explained = re.findall(r"^     (agent calls .+|bank .+)$", PAGE, re.MULTILINE)
    (printed,) = (output for _, output in BLOCKS if " agent calls " in output)
    assert len(explained) == 2
    assert all(line in printed for line in explained)


def test_the_page_counts_the_fan_out_as_the_simulator_does() -> None:
    """The three costs are tested in test_anthropic.py; the page must show the same."""
    for cost in ("0.80 USD", "0.64 USD", "0.128 USD"):
        assert cost in PAGE


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_row_that_says_what_to_do(cause: Cause) -> None:
    assert re.search(rf"^\| `{cause.value}` \| .+ \| .+ \|$", PAGE, re.MULTILINE)


def test_every_option_is_on_the_page() -> None:
    section = PAGE.split("### What you can decide")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(
        CacheOptions.__dataclass_fields__
    )


def test_every_link_within_the_page_has_its_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    links = re.findall(r"\]\(#([\w-]+)\)", PAGE)
    assert links
    assert set(links) <= headings
