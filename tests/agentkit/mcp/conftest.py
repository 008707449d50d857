"""Fixtures for the tests of MCP servers."""

from __future__ import annotations

import json
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


LISTED = Path(__file__).parent / "servers" / "listed.py"


class ToolFile:
    """What a `listed.py` server lists, to be changed by a test."""

    def __init__(self, path: Path, alias: str = "s") -> None:
        self.path = path
        self.alias = alias
        self.settings: dict[str, object] = {}
        self.tools: dict[str, dict[str, object]] = {}
        self.set("announce", "crash", "echo")

    def set(self, *names: str, **described: str) -> None:
        """List these tools and no others; `described` have their own description."""
        texts = dict.fromkeys(names, "") | described
        self.tools = {name: tool_of(name, text) for name, text in texts.items()}
        self.write()

    def write(self, **settings: object) -> None:
        """Write the file, with more settings of the server."""
        self.settings |= settings
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"tools": self.tools, **self.settings}), "utf-8")
        new.replace(self.path)

    def server(self, **options: object) -> McpServer:
        """The server of this file."""
        given = {"alias": self.alias, "connect_timeout_s": 20, "call_timeout_s": 20} | options
        given.setdefault("protocol", "legacy")
        return McpServer(command=[sys.executable, "-S", str(LISTED), str(self.path)], **given)  # type: ignore[arg-type]


def tool_of(name: str, description: str = "") -> dict[str, object]:
    """A tool as the file has it: two parameters, the keys in some order."""
    properties = {"text": {"type": "string"}, "count": {"type": "integer", "default": 1.0}}
    schema = {"type": "object", "properties": properties, "required": ["text"]}
    return {"description": description or f"Does {name}.", "schema": schema}


@pytest.fixture
def tool_file(tmp_path: Path) -> ToolFile:
    return ToolFile(tmp_path / "tools.json")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for words of a server: in these tests it says what it has to say at once."""
    from agentkit.toolset.mcp.lists import relisting

    monkeypatch.setattr(relisting, "_QUIET_S", 0.0)
    monkeypatch.setattr(relisting, "_GRACE_S", 0.0)


@pytest.fixture(autouse=True)
def own_cache_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists that a test keeps on disk are nobody else's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
