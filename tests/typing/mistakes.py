"""Mistakes that type checkers must find: each marked line, and no other."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from agentkit import Agent, tool
from agentkit.saved import PausedRun


class Found(BaseModel):
    line: int


@dataclass
class Database:
    url: str


class Reader(Agent[Database, Found]):
    """Reads."""

    async def check_output(self, output: str) -> None:  # error
        """Wrong type."""


@tool
def convert(usd: float) -> float:
    """Convert."""
    return usd


def use(value: object) -> None: ...


async def wrong(reader: Reader, agent: Agent, paused: PausedRun) -> None:
    await agent.run(3)  # error
    await agent.run("x", sesion="s")  # error
    await agent.run("x", session=3)  # error
    agent.stream("x", limits=3)  # error
    await agent.resume(3)  # error
    await agent.resume(paused, {"call": "yes"})  # error
    text: str = (await reader.run("x")).output  # error
    use(text)
    use((await reader.run("x")).output.lin)  # error
    use(reader.deps.uri)  # error
    Reader(deps="sqlite://")  # error
    Agent(model="local:x", max_turns="3")  # error
    Agent(model="local:x", modle="x")  # error
    Agent(model="local:x", tools=["files"])  # error
    Agent(model="local:x", output_type=3)  # error
    convert("3")  # error
    convert(euro=3.0)  # error
    number: int = convert(3.0)  # error
    use(number)
    async with agent.stream("x") as events:
        async for event in events:
            use(event.txt)  # error
            if event.kind == "text_dleta":  # error
                use(event)
