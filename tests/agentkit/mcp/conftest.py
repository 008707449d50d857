"""Fixtures for the tests of MCP servers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentkit.toolset import McpServer, ToolContext

SCRIPT = Path(__file__).parent / "servers" / "scripted.py"


@pytest.fixture
def context() -> ToolContext[None]:
    return ToolContext(deps=None, agent="tester", run_id="run-1", call_id="call-1")


@pytest.fixture
def server() -> Callable[..., McpServer]:
    """`server(mode, argument="", **options)`: the configuration of a scripted bad server."""

    def make(mode: str, argument: str = "", **options: object) -> McpServer:
        command = [sys.executable, "-S", str(SCRIPT), mode, argument]
        settings = {"alias": "bad", "connect_timeout_s": 20, "call_timeout_s": 20} | options
        return McpServer(command=command, **settings)  # type: ignore[arg-type]

    return make


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Whether a process is gone, or will be soon: init reaps killed grandchildren when it likes."""

    def check(pid: int) -> bool:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if not _is_running(pid):
                return True
            time.sleep(0.01)
        return False

    return check


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie is dead, only nobody has asked for its exit code (init may be slow, or absent).
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return status.parent.exists() or not Path("/proc/self").exists()
