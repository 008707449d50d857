"""How far a call is: told to whoever listens to the run, never to the model."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from agentkit import Agent, McpServer, ToolContext, subagent, tool
from agentkit.events import Event, SubagentEvent, ToolProgress
from agentkit.events_json import event_to_json
from agentkit.observe.team_view import TeamView
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset.mcp.calls.flood import Floodgate

ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


def diggers() -> MCPServer:
    server = MCPServer("diggers")

    @server.tool()
    async def insist(context: Context[Any]) -> str:
        """Say again and again that it is done."""
        for _ in range(500):
            await context.report_progress(1, 1)
        return "done"

    @server.tool()
    async def dig(metres: int, context: Context[Any]) -> str:
        """Dig."""
        for metre in range(metres):
            await context.report_progress(metre + 1, metres, f"metre {metre + 1}")
        return "dug"

    @server.tool()
    async def wander(context: Context[Any]) -> str:
        """Walk about."""
        await context.report_progress(0.5)
        await context.report_progress(0.7, None, "half\x1b[31m a \ud800 word" + "!" * 1000)
        return "here"

    return server


async def events_of(agent: Agent[Any, Any]) -> list[Event]:
    async with agent.stream("Go.") as stream:
        return [event async for event in stream]


def progress_in(events: list[Event]) -> list[ToolProgress]:
    return [event for event in events if isinstance(event, ToolProgress)]


@ERAS
async def test_a_servers_progress_is_an_event_and_no_part_of_the_conversation(
    protocol: Any,
) -> None:
    model = ScriptedModel([Call("mine__dig", {"metres": 3}), "Done."])
    server = McpServer(alias="mine", server=diggers(), protocol=protocol)
    events = await events_of(Agent(model=model, name="boss", tools=[server]))

    told = progress_in(events)
    assert [(each.done, each.total, each.message) for each in told] == [
        (1, 3, "metre 1"),
        (2, 3, "metre 2"),
        (3, 3, "metre 3"),
    ]
    assert {(each.call_id, each.name) for each in told} == {("call_1", "mine__dig")}
    assert event_to_json(told[0]) == {
        "kind": "tool_progress",
        "call_id": told[0].call_id,
        "name": "mine__dig",
        "done": 1.0,
        "total": 3.0,
        "message": "metre 1",
    }
    assert b"metre 1" not in model.calls[1].wire
    assert_prefix_stable(model.calls)


@ERAS
async def test_what_a_server_says_of_its_progress_is_bounded_and_has_a_text_form(
    protocol: Any,
) -> None:
    model = ScriptedModel([Call("mine__wander"), "Done."])
    server = McpServer(alias="mine", server=diggers(), protocol=protocol)
    first, second = progress_in(await events_of(Agent(model=model, tools=[server])))

    assert (first.total, first.message) == (None, "")
    assert len(second.message) <= 500
    second.message.encode()


async def test_a_flood_of_reports_is_cut_and_the_last_one_still_comes() -> None:
    model = ScriptedModel([Call("mine__dig", {"metres": 500}), "Done."])
    told = progress_in(
        await events_of(Agent(model=model, tools=[McpServer(alias="mine", server=diggers())]))
    )
    assert 50 <= len(told) < 250
    assert told[-1].done == 500

    model = ScriptedModel([Call("mine__insist"), "Done."])
    server = McpServer(alias="mine", server=diggers())
    assert len(progress_in(await events_of(Agent(model=model, tools=[server])))) < 250


def test_a_floodgate_lets_a_burst_pass_and_then_so_many_a_second() -> None:
    now = [0.0]
    gate = Floodgate(3, 2.0, clock=lambda: now[0])
    assert [gate.passes() for _ in range(5)] == [True, True, True, False, False]
    assert (gate.n_held(), gate.n_held()) == (2, 0)
    now[0] = 1.0
    assert [gate.passes() for _ in range(3)] == [True, True, False]
    now[0] = 1e9
    assert sum(gate.passes() for _ in range(10)) == 3


async def test_a_function_shows_its_progress_from_the_loop_and_from_its_thread() -> None:
    @tool
    async def count(context: ToolContext[None]) -> str:
        """Count."""
        context.progress(1, 2, "one")
        return "counted"

    @tool
    def add(context: ToolContext[None]) -> str:
        """Add."""
        assert threading.current_thread() is not threading.main_thread()
        context.progress(5)
        return "added"

    model = ScriptedModel([[Call("count"), Call("add")], "Done."])
    told = progress_in(await events_of(Agent(model=model, tools=[count, add])))
    assert {(each.name, each.done, each.total) for each in told} == {
        ("count", 1, 2),
        ("add", 5, None),
    }


async def test_a_thread_that_outlives_its_call_shows_nothing_any_more() -> None:
    may_end, has_ended = threading.Event(), threading.Event()

    @tool(timeout_s=0.01)
    def linger(context: ToolContext[None]) -> str:
        """Stay."""
        may_end.wait(10)
        context.progress(1)
        has_ended.set()
        return "late"

    @tool
    async def wait() -> str:
        """Wait for it."""
        may_end.set()
        await asyncio.to_thread(has_ended.wait, 10)
        return "waited"

    model = ScriptedModel([Call("linger"), Call("wait"), "Done."])
    assert progress_in(await events_of(Agent(model=model, tools=[linger, wait]))) == []


async def test_a_subagents_progress_comes_with_its_path() -> None:
    @tool
    async def count(context: ToolContext[None]) -> str:
        """Count."""
        context.progress(1)
        return "counted"

    child = Agent(name="child", instructions="You count.", tools=[count])
    model = ScriptedModel(
        {"boss": [Call("delegate_to_child", {"task": "t"}), "ok"], "child": [Call("count"), "ok"]}
    )
    events = await events_of(Agent(name="boss", model=model, subagents=[subagent(child)]))
    (told,) = [
        event
        for event in events
        if isinstance(event, SubagentEvent) and isinstance(event.event, ToolProgress)
    ]
    assert told.path == ("boss", "child")


def test_the_live_view_says_how_far_a_call_is() -> None:
    view = TeamView("boss")
    view.push(
        ToolProgress(
            call_id="c", name="dig", done=2, total=8, message="two\nmetres\x1b[1m of eight"
        )
    )
    (agent,) = view.agents
    assert agent.doing.startswith("waits for dig: 2 of 8, two metres")


async def test_a_context_made_by_hand_takes_progress_and_drops_it(
    context: ToolContext[None],
) -> None:
    context.progress(1, 2, "x")
    context.progress(math.nan)
