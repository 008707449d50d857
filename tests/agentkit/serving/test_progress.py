"""Progress and cancellation pass through a served agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from mcp import Client, MCPError

from agentkit import Agent, MemoryJournal, tool
from agentkit.serving import serve_mcp
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from tests.agentkit.serving.hanging import Hanging

Connect = Callable[..., Client]


class Reader(Agent):
    """You read."""


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_turns_calls_and_subagents_are_told_while_they_happen(client: Connect) -> None:
    model = ScriptedModel(
        {
            "desk": [[Call("delegate_to_reader", {"task": "read"}), Call("look", {})], "Done."],
            "reader": ["It says: closed."],
        }
    )
    agent = Agent(
        model=model, name="desk", instructions="You lead.", subagents=[Reader], tools=[look]
    )
    told: list[tuple[float, str]] = []

    async def progress(amount: float, total: float | None, message: str | None) -> None:
        told.append((amount, message or ""))

    async with client(agent) as one:
        result = await one.call_tool("ask_desk", {"prompt": "x"}, progress_callback=progress)
    assert not result.is_error
    amounts = [amount for amount, _ in told]
    assert amounts == sorted(set(amounts)), "it must grow"
    lines = "\n".join(line for _, line in told)
    run_id = (result.meta or {})["agentkit/run"]["run_id"]
    assert told[0][1] == f"desk: run {run_id} begins"
    assert "calls delegate_to_reader, look" in lines
    assert "desk/reader: turn 1" in lines
    assert lines.endswith("desk: done")


async def test_a_client_that_cancels_its_call_aborts_the_models_request(client: Connect) -> None:
    model = Hanging()
    agent = Agent(model=model, name="desk", instructions="You answer.")
    async with client(agent) as one:
        call = asyncio.create_task(
            one.call_tool("ask_desk", {"prompt": "hang here", "session": "s"})
        )
        await model.began.wait()
        call.cancel()
        await asyncio.wait([call])
        async with asyncio.timeout(10):
            await model.aborted.wait()
        after = await one.call_tool("ask_desk", {"prompt": "go on", "session": "s"})
    assert not after.is_error
    texts = [message.text for message in model.calls[-1].request.context.messages[:1]]  # type: ignore[union-attr]
    assert texts == ["hang here"], "what was said before the call was cancelled is kept"
    assert_prefix_stable(model.calls)
    assert model.n_running == 0


async def test_a_call_that_times_out_at_the_client_is_cancelled_too(client: Connect) -> None:
    model = Hanging()
    agent = Agent(model=model, name="desk", instructions="You answer.")
    async with client(agent) as one:
        with pytest.raises(MCPError):
            await one.call_tool("ask_desk", {"prompt": "hang"}, read_timeout_seconds=0.2)
        async with asyncio.timeout(10):
            await model.aborted.wait()


async def test_a_client_that_goes_away_ends_its_runs() -> None:
    """In the handshake's protocol; the SDK's other way in memory is no connection at all."""
    model = Hanging()
    agent = Agent(model=model, name="desk", instructions="You answer.")
    async with Client(serve_mcp(agent), mode="legacy", read_timeout_seconds=30) as one:
        call = asyncio.create_task(one.call_tool("ask_desk", {"prompt": "hang"}))
        await model.began.wait()
    async with asyncio.timeout(10):
        await model.aborted.wait()
        with pytest.raises(MCPError):
            await call
    assert model.n_running == 0


async def test_a_cancelled_run_of_a_journal_is_kept_and_its_session_goes_on(
    client: Connect,
) -> None:
    model, journal = Hanging(), MemoryJournal()
    agent = Agent(model=model, name="desk", instructions="You answer.", journal=journal)
    async with client(agent) as one:
        call = asyncio.create_task(one.call_tool("ask_desk", {"prompt": "hang", "session": "s"}))
        await model.began.wait()
        call.cancel()
        await asyncio.wait([call])
        async with asyncio.timeout(10):
            await model.aborted.wait()
        after = await one.call_tool("ask_desk", {"prompt": "go on", "session": "s"})
    assert not after.is_error, after
    assert len(model.calls[-1].request.context.messages) >= 2
