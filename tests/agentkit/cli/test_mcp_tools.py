"""`agentkit mcp`, with the real files server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def test_a_tool_that_a_model_has_to_find_is_called_as_any_other(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("first line\n")
    called = cli("mcp", "call", "cli_app:Sought", "read_lines", '{"path": "note.md"}')
    assert called.exit_code == 0, called.output
    assert "first line" in called.stdout


def test_a_wrong_call_says_what_is_wrong(cli: Cli) -> None:
    broken = cli("mcp", "call", "cli_app:Served", "files__read_lines", "{")
    assert broken.exit_code == 2
    assert "are no JSON" in broken.stderr
    no_object = cli("mcp", "call", "cli_app:Served", "files__read_lines", "[]")
    assert no_object.exit_code == 2
    unknown = cli("mcp", "call", "cli_app:Served", "nothing", "{}")
    assert unknown.exit_code == 1
    assert "files__read_lines" in unknown.stderr


def test_the_servers_of_other_clients_are_listed(cli: Cli, tmp_path: Path) -> None:
    args = ["-m", "agentkit_tools.files", "${AGENTKIT_TEST_ROOT:-.}"]
    files = {"command": sys.executable, "args": args, "timeout": 5}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"my files": files}}))
    listed = cli("mcp", "list", "--config", str(config))
    assert listed.exit_code == 0, listed.output
    assert "my-files__read_lines" in listed.stdout
    assert "warning: server 'my files'" in listed.stderr
    assert "'timeout' (call_timeout_s)" in listed.stderr

    config.write_text(json.dumps({"mcpServers": {"one": {"command": "${AGENTKIT_TEST_NONE}"}}}))
    refused = cli("mcp", "list", "--config", str(config))
    assert refused.exit_code == 2
    assert "${AGENTKIT_TEST_NONE} in command of server 'one'" in refused.stderr
    assert cli("mcp", "list", "--config", str(tmp_path / "none.json")).exit_code == 2
    both = cli("mcp", "list", "--config", str(config), "--url", "https://x.example/mcp")
    assert both.exit_code == 2
    assert "--url or --config: one of them" in both.stderr


def test_who_reads_no_further_gets_no_error(cli: Cli) -> None:
    """As in `agentkit mcp list ... | head`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "agentkit", "mcp", "list", "cli_app:Desk", "--json"]
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["the agent has no MCP servers"]
