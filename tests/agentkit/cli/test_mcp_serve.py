"""`agentkit mcp serve`: what it refuses, and a server over HTTP in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.agentkit.cli.conftest import AGENTS, Cli

TOKEN = "a-token-that-is-long-enough"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--http", "0", "--host", "0.0.0.0"], 2, "--token-env"),
        (["--http", "0", "--token-env", "AGENTKIT_NO_SUCH_TOKEN"], 2, "is not set"),
        (["--host", "127.0.0.2"], 2, "add --http PORT"),
        (["--http", "0", "--host", "0.0.0.0", "--token-env", "SERVE_TOKEN"], 2, "--allow-host"),
        (["--http", "0", "--allow-host", "agents.example"], 1, "give a token"),
        (["--tool", "ask.me"], 1, "not legal"),
    ],
)
def test_what_would_be_open_to_everybody_or_is_of_no_use_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, problem: str
) -> None:
    monkeypatch.setenv("SERVE_TOKEN", TOKEN)
    done = cli("mcp", "serve", "cli_app:Desk", *arguments)
    assert done.exit_code == code
    assert problem in done.stderr


async def test_an_agent_is_served_over_http_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "cli_app.py").write_text(AGENTS)
    command = [sys.executable, "-m", "agentkit", "mcp", "serve", "cli_app:Desk", "--http", "0"]
    process = subprocess.Popen(  # noqa: ASYNC220  (it returns at once)
        [*command, "--token-env", "SERVE_TOKEN"],
        cwd=tmp_path,
        env=os.environ | {"SERVE_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving at http://127.0.0.1:"), line + process.stderr.read()
        url = line.split()[2]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, read_timeout_seconds=60) as one:
                result = await one.call_tool("ask_desk", {"prompt": "hello"})
        assert "You said 'hello'" in result.content[0].text
        assert (await _status(url)) == 401
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""


async def _status(url: str) -> int:
    async with httpx2.AsyncClient() as http:
        return (await http.post(url, json={})).status_code
