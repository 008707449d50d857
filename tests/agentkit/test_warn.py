"""Warnings: what is warned of, and that they point at the code of the user."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import pytest

from agentkit import Agent, MissingDescriptionWarning, VolatileTextWarning, tool
from agentkit.testing import ScriptedModel
from agentkit.toolset import FunctionTool


def bare(x: int) -> int:
    return x


def described(x: int) -> int:
    """Return it."""
    return x


class Nameless(Agent):
    pass


class Helper(Agent):
    """You help."""


def agent(**options: object) -> Agent:
    return Agent(model=ScriptedModel(lambda _: "ok"), **options)  # type: ignore[arg-type]


def line_of(text: str) -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if line.endswith(text)]
    return number


def test_a_warning_points_at_the_line_that_runs_the_agent() -> None:
    clocked = agent(instructions="It is 2026-11-29T10:00:00Z.")

    with pytest.warns(VolatileTextWarning) as caught:
        clocked.run_sync("x")  # the line of run_sync

    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of("# the line of run_sync"))


async def test_a_warning_points_at_the_line_that_awaits_the_agent() -> None:
    clocked = agent(instructions="It is 2026-11-29T10:00:00Z.")

    with pytest.warns(VolatileTextWarning) as caught:
        await clocked.run("x")  # the line of await

    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of("# the line of await"))


def test_a_warning_from_a_task_points_at_the_line_that_runs_the_loop() -> None:
    clocked = agent(instructions="It is 2026-11-29T10:00:00Z.")

    async def main() -> None:
        await asyncio.create_task(clocked.run("x"))

    with pytest.warns(VolatileTextWarning) as caught:
        asyncio.run(main())  # the line of the loop

    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of("# the line of the loop"))


def test_a_function_without_a_description_is_warned_of_once() -> None:
    one = agent(tools=[bare], subagents=[Helper(tools=[bare])])

    with pytest.warns(MissingDescriptionWarning, match=r"tool 'bare' .*give the function a doc"):
        one.run_sync("x")
    one.run_sync("y")  # a second warning would be an error here


def test_each_tool_is_warned_of_only_once_in_a_team() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent(tools=[bare], subagents=[Helper(tools=[bare])]).run_sync("x")

    assert [warning.category for warning in caught] == [MissingDescriptionWarning]


def test_a_subagent_without_a_role_is_warned_of() -> None:
    with pytest.warns(MissingDescriptionWarning, match=r"agent 'nameless', .*set instructions"):
        agent(name="boss", subagents=[Nameless]).run_sync("x")


@pytest.mark.parametrize("source", [described, tool(description="Return it.")(bare)])
def test_what_is_described_is_not_warned_of(source: FunctionTool[..., int]) -> None:
    """And no agent at the top: nobody chooses it."""
    agent(tools=[source], subagents=[Helper]).run_sync("x")
