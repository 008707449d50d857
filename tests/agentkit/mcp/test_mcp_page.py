"""docs/mcp.md: its blocks do what the page says, and what it lists is all there is."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentkit import McpServer
from agentkit.cli.mcp_tools import mcp
from agentkit.toolset.mcp import Trust

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "mcp.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)


def test_the_blocks_run_one_after_the_other_and_print_what_the_page_shows() -> None:
    assert PAGE.count("```text") == sum(bool(output) for _, output in BLOCKS) == 5
    names: dict[str, Any] = {"__name__": "mcp_page"}
    for code, output in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/mcp.md", "exec", dont_inherit=True), names)
        assert printed.getvalue() == output, code


def test_every_setting_is_in_the_table_with_its_default() -> None:
    section = PAGE.split("\n## All settings\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \| (?:`(.*?)`)? ?\|", section, re.MULTILINE)
    told = {name: default for names, _, default in rows for name in re.findall(r"\w+", names)}
    server = McpServer(alias="a", command=["a"])
    assert list(told) == [item.name for item in fields(McpServer)]
    for item in fields(McpServer):
        if item.name not in ("alias", "command"):
            assert eval(told[item.name], {"Trust": Trust}) == getattr(server, item.name), item.name


def test_every_setting_of_trust_is_on_the_page() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert {item.name for item in fields(Trust)} <= rows


def test_every_server_that_comes_along_is_on_the_page() -> None:
    servers = {path.stem for path in (ROOT / "tools" / "agentkit_tools").glob("[a-z]*.py")}
    section = PAGE.split("\n## Servers that come with agentkit\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)", section, re.MULTILINE)) == servers


def test_every_command_is_on_a_page() -> None:
    pages = PAGE + (ROOT / "docs" / "cli.md").read_text("utf-8")
    names = {each.name or each.callback.__name__ for each in mcp.registered_commands}  # type: ignore[union-attr]
    assert all(f"agentkit mcp {name} " in re.sub(r"\s+", " ", pages) for name in names), names


def test_every_link_has_its_heading() -> None:
    headings = {line.lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)", PAGE, re.M)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= headings
    for page in re.findall(r"\]\((\w[\w-]+\.md)", PAGE):
        assert (ROOT / "docs" / page).is_file(), page
