"""MCP servers by others, at our client: do they list, answer, and stay the same?

    python tests/bench/mcp_servers.py --install DIR [--only git,time] [--restarts 10] [--write]
    python tests/bench/mcp_servers.py --from DIR ...

Each is started ten times: its tools must have the same bytes each time, no process may be left, and
an agent calls a tool of it. Then the tools go to each provider's adapter and the fake provider, and
are held against what the providers allow. `--install` needs npm, PyPI and a few hundred megabytes;
the rest needs no network. `--write` puts the table into docs/mcp-servers.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp_others import OTHERS, Other, install, version
from mcp_providers import accepted_by_providers
from mcp_site import serve_site, work_folder
from rich.console import Console

from agentkit import Agent, McpServer
from agentkit.blocks import ToolMessage
from agentkit.context.lint import VolatileTextWarning
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import Toolset

PAGE = Path(__file__).parents[2] / "docs" / "mcp-servers.md"
MARK = "AGENTKIT_OTHERS_MARK"
NOT_INSTALLED = 3
"""Exit code where npm or pip failed: nothing was found out."""
BEGIN, END = "<!-- written by tests/bench/mcp_servers.py -->", "<!-- end -->"


@dataclass(slots=True, kw_only=True)
class Row:
    """What was found out about one server."""

    other: Other
    version: str
    n_tools: int = 0
    digests: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """From the start of its process to its tools, for each start."""
    warnings: tuple[str, ...] = ()
    answered: str = "not called"
    providers: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """A row of the table."""
        transport = "stdio"
        if self.other.is_http:
            transport = "SSE" if self.other.path == "/sse" else "HTTP"
        n_bytes = len(set(self.digests))
        return (
            f"| {self.other.name.partition(' (')[0]} | {self.version} | {transport} "
            f"| {self.n_tools} | {statistics.median(self.seconds or [0]):.1f} "
            f"| {n_bytes} of {len(self.digests)} | {self.answered} | {self.providers} "
            f"| {'; '.join(self.problems) or 'none'} |"
        )


HEAD = (
    "| server | version | transport | tools | start to tools, s | different bytes | a call "
    "| providers | problems |\n|---|---|---|---|---|---|---|---|---|"
)


class Bench:
    """Everything that the servers need around them."""

    def __init__(self, folder: Path, work: Path, site: str) -> None:
        self._folder = folder
        self._work = work
        self._site = site
        node = folder / "npm" / "node_modules" / ".bin"
        self._path = f"{node}{os.pathsep}{os.environ['PATH']}"

    async def row(self, other: Other, n_starts: int) -> Row:
        """Start a server several times, and find out about it."""
        row = Row(other=other, version=version(self._folder, other))
        for number in range(n_starts):
            mark = f"{os.getpid()}-{time.monotonic_ns()}"
            begun = time.perf_counter()
            try:
                async with self._reached(other, mark) as server:
                    async with server.connect() as connection:
                        row.seconds.append(time.perf_counter() - begun)
                        row.digests.append(Toolset(connection.tools).digest)
                        if number == 0:
                            row.n_tools = len(connection.tools)
                            row.warnings = connection.warnings
                            problems = await accepted_by_providers(connection.tools)
                            row.providers = "all" if not problems else "; ".join(problems)
                    if number == 0 and other.call is not None:
                        row.answered = await self._ask(other, server)
            except Exception as error:
                row.problems.append(self._one_line(f"start {number + 1}: {error}"))
                break
            if left := processes(mark):
                row.problems.append(f"left after start {number + 1}: {left}")
        return row

    @contextlib.asynccontextmanager
    async def _reached(self, other: Other, mark: str) -> AsyncIterator[McpServer]:
        """The server, started by itself if it is spoken to over HTTP."""
        port = _free_port()
        names = {"work": str(self._work), "port": str(port), "site": self._site}
        command = [other.command(self._folder), *(_filled(each, names) for each in other.arguments)]
        env = {key: _filled(value, names) for key, value in other.env.items()}
        env |= {MARK: mark, "PATH": self._path}
        if other.path is None:
            yield McpServer(
                alias="other", command=command, env=env, connect_timeout_s=60, call_timeout_s=120
            )
            return
        own = {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}
        process = subprocess.Popen(  # noqa: ASYNC220  (it returns at once)
            command,
            env=own | env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await _listens(port, process)
            is_old = other.path == "/sse"
            yield McpServer(
                alias="other",
                url=f"http://127.0.0.1:{port}{other.path}",
                transport="sse" if is_old else "streamable-http",
                headers=other.headers,
                connect_timeout_s=60,
            )
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _one_line(self, text: str) -> str:
        """Return a text as a cell of the table."""
        return " ".join(text.replace(str(self._folder), "DIR").replace("|", "/").split())[:300]

    async def _ask(self, other: Other, server: McpServer) -> str:
        """Let an agent call a tool, as a model would."""
        assert other.call is not None, "it is asked only where there is a call"
        tool, arguments = other.call
        names = {"work": str(self._work), "site": self._site}
        call = Call(f"other__{tool}", json.dumps(_filled_all(arguments, names)))
        model = ScriptedModel([call, "done"])
        agent = Agent(model=model, name="tester", instructions="You test.", tools=[server])
        result = await agent.run("Go.")
        (shown,) = (
            each
            for message in result.messages
            if isinstance(message, ToolMessage)
            for each in message.results
        )
        if shown.is_error or other.answer not in shown.content:
            return f"`{tool}` failed: {self._one_line(shown.content)}"
        return f"`{tool}`"


def processes(mark: str) -> list[str]:
    """Return what still runs and was started with a mark in its environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for status in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in status.read_bytes().split(b"\0"):
                found.append((status.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _filled_all(arguments: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    return {
        key: _filled(value, names) if isinstance(value, str) else value
        for key, value in arguments.items()
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def _listens(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1_200):
        if process.poll() is not None:
            raise OSError(f"it ended with exit code {process.returncode}")
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise OSError(f"it does not listen on port {port} after 60 s")


def main() -> int:
    """Find out about the servers, print the table, and return the exit code: 0 if all is right."""
    given = _arguments()
    chosen = tuple(each for each in OTHERS if not given.only or _is_meant(each, given.only))
    folder = (given.install or given.source).resolve()
    if given.install is not None:
        try:
            install(folder, chosen)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"cannot be installed: {error}\n")
            return NOT_INSTALLED
    logging.getLogger("agentkit.mcp").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", VolatileTextWarning)  # of what they write into descriptions
    out = Console(soft_wrap=True, highlight=False, markup=False)
    out.print(HEAD)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place, serve_site() as site:
        bench = Bench(folder, work_folder(Path(place)), site)
        for other in chosen:
            rows.append(asyncio.run(bench.row(other, given.restarts)))
            out.print(rows[-1].line)
    if given.write:
        _write(rows)
    for row in rows:
        for warning in row.warnings:
            out.print(f"{row.other.name}: {warning}")
    return 0 if all(_is_right(row, given.restarts) for row in rows) else 1


def _is_right(row: Row, n_starts: int) -> bool:
    is_same = len(row.digests) == n_starts and len(set(row.digests)) == 1
    return is_same and not row.problems and "failed" not in row.answered and row.providers == "all"


def _write(rows: list[Row]) -> None:
    """Put rows into the page; those of servers that were not asked now stay."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    written, _, after = rest.partition(END)
    lines = {_key(line): line for line in written.splitlines() if line.startswith("| ")}
    lines |= {_key(row.line): row.line for row in rows}
    order = [_key(Row(other=other, version="").line) for other in OTHERS]
    table = "\n".join([HEAD, *(lines[key] for key in order if key in lines)])
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")


def _key(line: str) -> tuple[str, str]:
    """Return server and transport of a row."""
    cells = [cell.strip() for cell in line.split("|")]
    return cells[1], cells[3]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--install", type=Path, help="fill such a folder first, then use it")
    where.add_argument("--from", dest="source", type=Path, help="a folder that was filled before")
    parser.add_argument("--only", type=_names, default=(), help="names, with commas between them")
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _is_meant(other: Other, only: tuple[str, ...]) -> bool:
    return other.name in only or other.name.partition(" (")[0] in only


if __name__ == "__main__":
    sys.exit(main())
