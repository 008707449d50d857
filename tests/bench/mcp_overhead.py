"""What MCP servers cost the machine that asks: CPU time of a run's start, and of a tool call.

start   a run with 10 servers of 50 tools each, whose lists lie on disk, beside one without servers:
        the first such run of a process (in a process of its own each time, which has made a run
        without servers before), and later ones
call    a call of a server's tool, beside `ClientSession.call_tool` of the MCP SDK over its own
        stdio transport. Both ask the same server (`listed.py` of the tests), which is a process
        of its own and is not counted.

What is compared takes turns in one process; the least of the rounds counts, for what disturbs can
only add.

    python tests/bench/mcp_overhead.py [--rounds 5] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from results import Result, write_benchmarks
from rich.console import Console

from agentkit import Agent, McpServer
from agentkit.testing import ScriptedModel
from agentkit.toolset import ToolContext

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "docs" / "benchmarks.json"
LISTED = ROOT / "tests" / "agentkit" / "mcp" / "servers" / "listed.py"
_SERVERS, _TOOLS = 10, 50
_RUNS, _CALLS = 10, 300
_MOST_START_MS, _MOST_CALL_MS = 50.0, 1.0


def main() -> None:
    """Measure, print, and check the bounds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.json")
    parser.add_argument("--first", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    arguments = parser.parse_args()
    if arguments.first is not None:
        Console().print(asyncio.run(_first(arguments.first)))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        results = list(measured(Path(folder), arguments.rounds))
    for result in results:
        line = f"{result.name}: {result.value:g} {result.unit} ({result.note})"
        Console().print(line, soft_wrap=True)
    if arguments.write:
        write_benchmarks(BENCHMARKS, results)
    first, later, call = (result.value for result in results)
    if max(first, later) > _MOST_START_MS or call > _MOST_CALL_MS:
        sys.exit("an MCP server costs more than it may")


def measured(folder: Path, n_rounds: int) -> Iterator[Result]:
    """Measure all."""
    with_servers, without = asyncio.run(starts(folder, n_rounds))
    first = firsts(folder, n_rounds)
    yield Result(
        name="mcp_start_cached_500_tools_first_run",
        value=round(min(first) - min(without), 2),
        unit="ms",
        note=f"CPU of the first such run of a process, least of {n_rounds}; {_SERVERS} servers of "
        f"{_TOOLS} tools {min(first):.2f} ms, none {min(without):.2f} ms",
    )
    yield Result(
        name="mcp_start_cached_500_tools_over_none",
        value=round(min(with_servers) - min(without), 2),
        unit="ms",
        note=f"CPU of a run, least of {n_rounds} in turn; {_SERVERS} servers of {_TOOLS} tools "
        f"{min(with_servers):.2f} ms, none {min(without):.2f} ms",
    )
    ours, sdk = asyncio.run(calls(folder, n_rounds))
    yield Result(
        name="mcp_call_over_sdk",
        value=round(min(ours) - min(sdk), 3),
        unit="ms",
        note=f"CPU of a call over stdio, least of {n_rounds} in turn; ours {min(ours):.3f} ms, "
        f"SDK {min(sdk):.3f} ms",
    )


async def starts(folder: Path, n_rounds: int) -> tuple[list[float], list[float]]:
    """Return CPU milliseconds of a run with servers, and of one without."""
    servers = _servers(folder)
    await _run(servers)  # starts them, and keeps their lists
    with_servers: list[float] = []
    without: list[float] = []
    for _ in range(n_rounds):
        with_servers.append(await _cost(lambda: _run(servers), _RUNS))
        without.append(await _cost(lambda: _run([]), _RUNS))
    return with_servers, without


def firsts(folder: Path, n_rounds: int) -> list[float]:
    """Return CPU milliseconds of first runs with servers whose lists are kept by now."""
    command = [sys.executable, __file__, "--first", str(folder)]
    return [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(n_rounds)
    ]


async def _first(folder: Path) -> float:
    servers = _servers(folder)
    await _run([])
    begun_s = time.process_time()
    await _run(servers)
    return (time.process_time() - begun_s) * 1_000


async def calls(folder: Path, n_rounds: int) -> tuple[list[float], list[float]]:
    """Return CPU milliseconds of a call, by us and by the SDK."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    server = _server(folder, "call", 3)
    given = StdioServerParameters(command=server.command[0], args=list(server.command[1:]))
    context = ToolContext(deps=None, agent="bench", run_id="run", call_id="call")
    arguments = {"text": "x" * 200, "count": 3}
    ours: list[float] = []
    sdk: list[float] = []
    async with server.connect() as connection, stdio_client(given) as streams:
        tool = connection.tools[0]
        async with ClientSession(*streams) as session:
            await session.initialize()
            await session.list_tools()
            for _ in range(n_rounds):
                ours.append(await _cost(lambda: tool.call(arguments, context), _CALLS))
                sdk.append(
                    await _cost(lambda: session.call_tool(tool.original_name, arguments), _CALLS)
                )
    return ours, sdk


async def _run(servers: list[McpServer]) -> None:
    await Agent(model=ScriptedModel(["done"]), tools=servers).run("x")


async def _cost(work: Callable[[], Awaitable[object]], n_times: int) -> float:
    """CPU milliseconds of this process for one of several."""
    await work()
    begun_s = time.process_time()
    for _ in range(n_times):
        await work()
    return (time.process_time() - begun_s) * 1_000 / n_times


def _servers(folder: Path) -> list[McpServer]:
    return [_server(folder, f"s{number}", _TOOLS) for number in range(_SERVERS)]


def _server(folder: Path, alias: str, n_tools: int) -> McpServer:
    """A server with tools as real ones have them: a text, and some parameters with words."""
    path = folder / f"{alias}.json"
    tools = {f"tool_{number}": _tool(number) for number in range(n_tools)}
    path.write_text(json.dumps({"tools": tools, "ttl_ms": 3_600_000}), "utf-8")
    command = [sys.executable, "-S", str(LISTED), str(path)]
    return McpServer(alias=alias, command=command, protocol="legacy")


def _tool(number: int) -> dict[str, object]:
    said = "what it is for, in a sentence as servers have them in their schemas"
    texts = {f"text_{n}": {"type": "string", "description": f"{n}: {said}."} for n in range(4)}
    kind = {"type": "string", "enum": ["first", "second", "third"]}
    maybe = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    properties = {"text": {"type": "string"}, **texts, "kind": kind, "count": maybe}
    schema = {"type": "object", "properties": properties, "required": ["text"]}
    return {"description": f"Does the thing number {number}. " * 6, "schema": schema}


if __name__ == "__main__":
    main()
