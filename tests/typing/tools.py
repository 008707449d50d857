"""What type checkers know of tools: they stay the functions that they were."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_type

from agentkit import Agent, tool
from agentkit.hooks import HookContext, Hooks
from agentkit.toolset import Tool, ToolContext, ToolOutput, ToolPolicy, ToolSpec


@dataclass
class Database:
    url: str


@tool
def convert(usd: float, currency: str = "EUR") -> float:
    """Convert."""
    return usd


@tool(timeout_s=3, retries=2, idempotent=True)
async def fetch(url: str, context: ToolContext[Database]) -> bytes:
    """Fetch."""
    assert_type(context.deps, Database)
    return url.encode()


def needs_approval(arguments: Mapping[str, object], context: ToolContext[Database]) -> bool:
    return bool(arguments.get("amount")) and context.deps.url != ""


class Desk(Agent[Database, str]):
    """Desk."""

    @tool(requires_approval=needs_approval)
    async def pay(self, amount: float) -> str:
        """Pay."""
        assert_type(self.deps, Database)
        return f"{amount}"

    @tool
    def look(self, at: str) -> list[str]:
        """Look."""
        return [at]


async def a_tool_can_be_called_as_the_function_it_is(desk: Desk) -> None:
    assert_type(convert(1.0), float)
    assert_type(convert(1.0, currency="GBP"), float)
    assert_type(desk.look("x"), list[str])
    assert_type(await desk.pay(2.0), str)


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, by: int) -> int:
        self.n += by
        return self.n


class Foreign:
    """A tool by the protocol."""

    spec = ToolSpec(name="foreign", description="", parameters={})
    policy = ToolPolicy(retries=1)

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        return ToolOutput(content="x")


class Upper(Hooks):
    """Changes answers."""

    async def after_tool(
        self, at: HookContext[Any], call: object, output: ToolOutput
    ) -> ToolOutput:
        return ToolOutput(content=output.content.upper())


def plain(text: str) -> str:
    return text


def agents_take_tools_of_each_kind(desk: Desk) -> None:
    foreign: Tool = Foreign()
    Agent(
        model="local:x",
        tools=[convert, fetch, desk.look, Counter(), Counter, foreign, plain, Foreign()],
        hooks=[Upper()],
    )
    Agent(model="local:x", tools=[functools.partial(plain, text="x"), desk.pay])
