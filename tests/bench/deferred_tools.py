"""What hundreds of tools cost in front of every prompt, beside tools that are found: `make bench`.

A server of 400 tools (about 150 tokens each) and a conversation of 12 calls, for which the model
needs three of them. Either all lead the prompt, or the server has `defer_loading` and the model
searches three times, which takes three turns more. Input tokens only, through the real adapters and
SDKs to the fake provider, in virtual time.

    python tests/bench/deferred_tools.py [--tools 400] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import httpx2
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool
from plan_cost import TARGETS, Target
from results import Result, write_benchmarks
from rich.console import Console
from rich.table import Table
from scenarios import GAP_S, SAID_TOKENS, TURN_TOKENS, text

from agentkit import Agent, McpServer
from agentkit.caching.options import CacheOptions
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Call, FakeProvider, Reply
from agentkit.finding import CALL_FOUND_TOOL, FIND_TOOLS
from agentkit.models.hosted.model import HostedModel

BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks.json"
_TOOL_TOKENS = 150
_TURNS, _NEEDED = 12, 3
_NO_PINGS = CacheOptions(keep_alive_usd=Decimal(0))
"""Virtual time does not wait for the thread that searches, and would ping meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one conversation costs."""

    usd: Decimal
    first_prompt: int
    """Tokens."""
    requests: int


def server_of(n_tools: int) -> Server[object]:
    """Return a server whose tools have names of their own and nothing else in common."""
    tools = [
        Tool(
            name=f"tool_{number:03d}",
            description=text(_TOOL_TOKENS - 30, f"tool {number}"),
            input_schema={"type": "object", "properties": {"query": {"type": "string"}}},
        )
        for number in range(n_tools)
    ]

    async def list_tools(context: object, params: object) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: object, params: object) -> CallToolResult:
        content = TextContent(type="text", text=text(TURN_TOKENS - SAID_TOKENS, "result"))
        return CallToolResult(content=[content])

    return Server("many", on_list_tools=list_tools, on_call_tool=call_tool)


class Script:
    """What the model does: in each turn a call of one of three tools, found before its first."""

    def __init__(self, *, finds: bool) -> None:
        self._steps = list(_steps(finds=finds))

    def respond(self, ask: Ask) -> Reply:
        """Do the next step."""
        if ask.n_turns >= len(self._steps):
            return Reply(text="Done.")
        name, given = self._steps[ask.n_turns]
        if name not in ask.tools:
            given = {"name": name, "parameters": json.dumps(given)}
            name = CALL_FOUND_TOOL
        return Reply(
            text=text(SAID_TOKENS, f"said {ask.n_turns}"),
            calls=(Call(name, json.dumps(given)),),
            first_byte_s=1.0,
            seconds=GAP_S - 1.0,
        )


def _steps(*, finds: bool) -> Iterator[tuple[str, dict[str, str]]]:
    for turn in range(_TURNS):
        name = f"many__tool_{turn * _NEEDED // _TURNS:03d}"
        if finds and turn % (_TURNS // _NEEDED) == 0:
            yield FIND_TOOLS, {"query": name}
        yield name, {"query": f"turn {turn}"}


def bill(target: Target, n_tools: int, *, finds: bool) -> Bill:
    """Hold the conversation in virtual time, and price what the fake provider has served."""
    time = VirtualTime()
    fake = FakeProvider(time=time, respond=Script(finds=finds).respond)
    server = McpServer(alias="many", server=server_of(n_tools), defer_loading=finds)

    async def run() -> None:
        async with httpx2.AsyncClient(transport=fake.transport(), timeout=None) as http:
            adapter = target.connect(http, time, target.model)
            model = HostedModel(adapter, cache=_NO_PINGS, time=time)
            agent = Agent(name="a", instructions=text(2_800, "role"), model=model, tools=[server])
            await time.drive(_coroutine(agent))

    asyncio.run(run())
    served = [each for each in fake.served if isinstance(each, Served)]
    if len(served) != len(fake.records):
        problems = {str(each.outcome or each.error) for each in fake.records}
        raise RuntimeError(f"the fake provider refused requests: {problems}")
    costs = [each.cost for each in served if each.cost is not None]
    return Bill(
        usd=sum((cost.total - cost.output for cost in costs), Decimal(0)),
        first_prompt=served[0].split.total,
        requests=len(served),
    )


async def _coroutine(agent: Agent[None, str]) -> None:
    await agent.run("Begin.")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", type=int, default=400)
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.json")
    given = parser.parse_args()
    rows = [
        (each, bill(each, given.tools, finds=False), bill(each, given.tools, finds=True))
        for each in TARGETS
    ]
    show(rows)
    if given.write:
        write_benchmarks(BENCHMARKS, list(_results(rows, given.tools)))


def show(rows: Sequence[tuple[Target, Bill, Bill]]) -> None:
    """Print the table."""
    table = Table(title="USD for the input of one conversation")
    for name in ("provider", "all in front", "found", "ratio", "first prompt, tokens", "requests"):
        table.add_column(name, justify="left" if name == "provider" else "right")
    for target, front, found in rows:
        table.add_row(
            target.provider.value,
            f"{front.usd:.4f}",
            f"{found.usd:.4f}",
            f"{front.usd / found.usd:.1f}",
            f"{front.first_prompt:,} / {found.first_prompt:,}",
            f"{front.requests} / {found.requests}",
        )
    Console(width=100).print(table)


def _results(rows: Sequence[tuple[Target, Bill, Bill]], n_tools: int) -> Iterator[Result]:
    for target, front, found in rows:
        yield Result(
            name=f"deferred_tools_cost_ratio_{target.provider.value}",
            value=round(float(front.usd / found.usd), 2),
            unit="ratio",
            note=f"input of a conversation with {n_tools} tools in front, by the same with tools "
            f"that are found: {front.usd:.4f} by {found.usd:.4f} USD",
        )


if __name__ == "__main__":
    main()
