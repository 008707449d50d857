"""MCP servers by others: what is installed, how each is started, and one call that it must answer.

A folder holds them: `npm/` with the packages of npm, and a virtual environment for each of PyPI,
because their pins differ from ours and from each other's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A server by somebody else."""

    name: str
    source: Literal["npm", "pypi"]
    package: str
    """As npm or pip is asked for it."""
    needs: tuple[str, ...] = ()
    """What else pip is asked for, where the package itself asks for too little."""
    program: str
    """In `bin` of the folder of its source."""
    arguments: tuple[str, ...] = ()
    """`{work}` is a folder with a Git repository, a note and a database; `{port}` is a free port,
    `{site}` the address of a small web site on this machine."""
    env: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    """Of its URL, if it is spoken to over HTTP; None: over stdio."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of each request over HTTP."""
    call: tuple[str, Mapping[str, object]] | None = None
    """A tool and its arguments; None: what it does needs a browser."""
    answer: str = ""
    """A part of what the call answers."""

    @property
    def is_http(self) -> bool:
        """Whether it is spoken to over HTTP."""
        return self.path is not None

    def command(self, folder: Path) -> str:
        """Return its program."""
        home = folder / "npm" / "node_modules" / ".bin" if self.source == "npm" else None
        return str((home or folder / self.package.partition("==")[0] / "bin") / self.program)


_ATLASSIAN = {
    "JIRA_URL": "{site}",
    "JIRA_USERNAME": "nobody",
    "JIRA_API_TOKEN": "none",
    "CONFLUENCE_URL": "{site}/wiki",
    "CONFLUENCE_USERNAME": "nobody",
    "CONFLUENCE_API_TOKEN": "none",
}
_ECHO = ("echo", {"message": "hello from agentkit"})
_ENTITY = {"name": "boat", "entityType": "thing", "observations": ["it is lifted in April"]}
_THOUGHT = {
    "thought": "first things first",
    "nextThoughtNeeded": False,
    "thoughtNumber": 1,
    "totalThoughts": 1,
}
OTHERS = (
    Other(
        name="everything",
        source="npm",
        package="@modelcontextprotocol/server-everything@latest",
        program="mcp-server-everything",
        arguments=("stdio",),
        call=_ECHO,
        answer="hello from agentkit",
    ),
    Other(
        name="everything (HTTP)",
        source="npm",
        package="@modelcontextprotocol/server-everything@latest",
        program="mcp-server-everything",
        arguments=("streamableHttp",),
        env={"PORT": "{port}"},
        path="/mcp",
        call=_ECHO,
        answer="hello from agentkit",
    ),
    Other(
        name="everything (SSE)",
        source="npm",
        package="@modelcontextprotocol/server-everything@latest",
        program="mcp-server-everything",
        arguments=("sse",),
        env={"PORT": "{port}"},
        path="/sse",
        call=_ECHO,
        answer="hello from agentkit",
    ),
    Other(
        name="filesystem",
        source="npm",
        package="@modelcontextprotocol/server-filesystem@latest",
        program="mcp-server-filesystem",
        arguments=("{work}",),
        call=("read_text_file", {"path": "{work}/note.md"}),
        answer="the boat is lifted",
    ),
    Other(
        name="memory",
        source="npm",
        package="@modelcontextprotocol/server-memory@latest",
        program="mcp-server-memory",
        env={"MEMORY_FILE_PATH": "{work}/memory.jsonl"},
        call=("create_entities", {"entities": [_ENTITY]}),
        answer="boat",
    ),
    Other(
        name="sequential-thinking",
        source="npm",
        package="@modelcontextprotocol/server-sequential-thinking@latest",
        program="mcp-server-sequential-thinking",
        call=("sequentialthinking", _THOUGHT),
        answer="thoughtNumber",
    ),
    Other(
        name="playwright",
        source="npm",
        package="@playwright/mcp@latest",
        program="playwright-mcp",
        arguments=("--headless",),
    ),
    Other(
        name="chrome-devtools",
        source="npm",
        package="chrome-devtools-mcp@latest",
        program="chrome-devtools-mcp",
        arguments=("--headless",),
    ),
    Other(
        name="gitlab",
        source="npm",
        package="@zereight/mcp-gitlab@latest",
        program="mcp-gitlab",
        env={"GITLAB_PERSONAL_ACCESS_TOKEN": "none", "GITLAB_API_URL": "{site}/api/v4"},
        call=("get_project", {"project_id": "1"}),
        answer="Harbour museum",
    ),
    Other(
        name="git",
        source="pypi",
        package="mcp-server-git",
        program="mcp-server-git",
        arguments=("--repository", "{work}"),
        call=("git_log", {"repo_path": "{work}", "max_count": 1}),
        answer="The first commit",
    ),
    Other(
        name="time",
        source="pypi",
        package="mcp-server-time",
        program="mcp-server-time",
        arguments=("--local-timezone", "UTC"),
        call=(
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        ),
        answer="21:00",
    ),
    Other(
        name="fetch",
        source="pypi",
        package="mcp-server-fetch",
        program="mcp-server-fetch",
        arguments=("--ignore-robots-txt", "--allow-private-ips"),
        call=("fetch", {"url": "{site}/", "raw": True}),
        answer="Harbour museum",
    ),
    Other(
        name="sqlite",
        source="pypi",
        package="mcp-server-sqlite",
        needs=("mcp<2",),
        program="mcp-server-sqlite",
        arguments=("--db-path", "{work}/boats.db"),
        call=("read_query", {"query": "SELECT name FROM boats"}),
        answer="Greta",
    ),
    Other(
        name="atlassian",
        source="pypi",
        package="mcp-atlassian",
        program="mcp-atlassian",
        env=_ATLASSIAN,
        call=("jira_get_all_projects", {}),
        answer="Harbour museum",
    ),
    Other(
        name="atlassian (HTTP)",
        source="pypi",
        package="mcp-atlassian",
        program="mcp-atlassian",
        arguments=("--transport", "streamable-http", "--port", "{port}", "--host", "127.0.0.1"),
        env=_ATLASSIAN | {"PYTHONHASHSEED": "0"},  # as `McpServer` sets it for what it starts
        path="/mcp",
        headers={"Authorization": "Basic bm9ib2R5QGV4YW1wbGUub3JnOm5vbmU="},
        call=("jira_get_all_projects", {}),
        answer="Harbour museum",
    ),
)


def install(folder: Path, chosen: tuple[Other, ...]) -> None:
    """Fill a folder with the servers.

    Raises:
        subprocess.CalledProcessError: npm or pip failed; it has said why.
    """
    npm = folder / "npm"
    npm.mkdir(parents=True, exist_ok=True)
    packages = sorted({each.package for each in chosen if each.source == "npm"})
    if packages:
        skip = {"PUPPETEER_SKIP_DOWNLOAD": "1", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages, "node@22"],
            cwd=npm,
            env=os.environ | skip,
            check=True,
        )
    wanted = {each.package: each.needs for each in chosen if each.source == "pypi"}
    for package, needs in sorted(wanted.items()):
        home = folder / package.partition("==")[0]
        if not (home / "bin" / "pip").exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, package, *needs], check=True)


def version(folder: Path, other: Other) -> str:
    """Return which version of a server is installed.

    Raises:
        FileNotFoundError: none is.
    """
    if other.source == "npm":
        name = other.package.rpartition("@")[0]
        manifest = folder / "npm" / "node_modules" / name / "package.json"
        return str(json.loads(manifest.read_text("utf-8"))["version"])
    name = other.package.partition("==")[0]
    found = sorted(
        (folder / name).glob(f"lib/*/site-packages/{name.replace('-', '_')}-*.dist-info")
    )
    if not found:
        raise FileNotFoundError(f"{other.package} is not installed in {folder}: use --install")
    return found[-1].name.removesuffix(".dist-info").rpartition("-")[2]
