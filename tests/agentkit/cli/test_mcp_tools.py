"""`agentkit mcp`, with the real files server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agentkit.cli.conftest import Cli


def test_tools_are_listed_and_called_without_a_model(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("first line\nsecond line\n")
    listed = cli("mcp", "list", "cli_app:Served", "--json")
    assert listed.exit_code == 0, listed.output
    (server,) = json.loads(listed.stdout)["servers"]
    names = [tool["name"] for tool in server["tools"]]
    assert "files__read_lines" in names
    called = cli("mcp", "call", "cli_app:Served", "files__read_lines", '{"path": "note.md"}')
    assert called.exit_code == 0, called.output
    assert "second line" in called.stdout


def test_a_wrong_call_says_what_is_wrong(cli: Cli) -> None:
    broken = cli("mcp", "call", "cli_app:Served", "files__read_lines", "{")
    assert broken.exit_code == 2
    assert "are no JSON" in broken.stderr
    no_object = cli("mcp", "call", "cli_app:Served", "files__read_lines", "[]")
    assert no_object.exit_code == 2
    unknown = cli("mcp", "call", "cli_app:Served", "nothing", "{}")
    assert unknown.exit_code == 1
    assert "files__read_lines" in unknown.stderr
