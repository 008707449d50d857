"""docs/runtime.md: its blocks do what the page says, and what it names is there."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.cli import app
from agentkit_runtime.kv.format import KvFormat, bytes_per_token
from agentkit_runtime.kv.policy import policy
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.model.linear import WeightFormat

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime" / "agentkit_runtime"
PAGE = (ROOT / "docs" / "runtime.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)


def section(heading: str) -> str:
    """The text under a heading of the page."""
    return re.split(r"^#", PAGE.split(f"\n{heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_blocks_run_one_after_the_other_and_print_what_the_page_shows() -> None:
    assert PAGE.count("```text") == sum(bool(output) for _, output in BLOCKS) > 5
    names: dict[str, Any] = {"__name__": "runtime_page"}
    try:
        for code, output in BLOCKS:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "docs/runtime.md", "exec"), names)
            assert printed.getvalue() == output, code
    finally:
        if "runtime" in names:
            names["runtime"].close()


def test_the_plan_is_the_one_that_the_command_prints() -> None:
    (shown,) = re.findall(r"^    \$ agentkit-runtime (kv-plan .*)\n((?:    .*\n)+)", PAGE, re.M)
    done = CliRunner().invoke(app, shown[0].split())
    assert done.exit_code == 0, done.output
    assert done.stdout == re.sub(r"^    ", "", shown[1], flags=re.MULTILINE)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE))))
def test_every_file_that_is_named_is_there(path: str) -> None:
    assert (RUNTIME / path).is_file() or (ROOT / path).is_file() or path == "models/local.py"


def test_every_option_of_a_runtime_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", section("## Options"), re.MULTILINE)
    options = set(inspect.signature(LocalRuntime.load).parameters) - {"spec"}
    assert options <= set(rows)


def test_every_label_of_a_request_is_in_the_table() -> None:
    words = set(re.findall(r"`(\w+)`", section("## Options")))
    fields = set(ChatRequest.__dataclass_fields__)
    plain = {"messages", "tools", "request_id", "parallel_tool_calls"}
    assert fields - plain <= words


def test_every_format_and_policy_is_on_the_page() -> None:
    formats = set(re.findall(r"^\| `\"(\w+)\"` \|", section("### KV formats"), re.MULTILINE))
    assert formats == set(KvFormat)
    weights = re.findall(r"^\| `\"(\w+)\"`", section("## Weights and adapters"), re.MULTILINE)
    assert set(weights) == set(WeightFormat)
    for name in re.findall(r"^\| `\"(\w+)\"`", section("### What leaves first"), re.MULTILINE):
        policy(name)


def test_what_a_token_takes_in_each_format_is_what_the_pool_takes() -> None:
    rows = re.findall(
        r"^\| `\"(\w+)\"` \| ([\d,]+) \| ([\d.]+) \|", section("### KV formats"), re.MULTILINE
    )
    smollm2 = {"n_layers": 30, "n_kv_heads": 3, "head_dim": 64}
    half = bytes_per_token(KvFormat.FLOAT16, **smollm2)
    assert {name for name, _, _ in rows} == set(KvFormat)
    for name, takes, of_half in rows:
        n_bytes = bytes_per_token(KvFormat(name), **smollm2)
        assert takes == f"{n_bytes:,}", name
        assert abs(float(of_half) - n_bytes / half) <= 0.00051, name


def test_every_link_within_the_page_has_its_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    links = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    assert len(links) > 10
    assert links <= headings
