"""A cancellation that comes in the moment in which a task is made, before its first step.

Such a task never takes that step. What ends a server must not be lost with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentkit import Agent
from agentkit.testing import ScriptedModel
from agentkit.toolset import connect_all
from agentkit.toolset.mcp.connecting import close_all

pytestmark = pytest.mark.timeout(60)

Body = Callable[[Callable[[], object]], Awaitable[None]]


async def cancelled_at_once(body: Body) -> None:
    """Run a body, which is given what cancels it in the next step of the loop."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(body(lambda: loop.call_soon(task.cancel)))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_servers_that_are_ended_together_are_ended(server, is_gone):
    pids: list[int] = []

    async def body(cancel: Callable[[], object]) -> None:
        connections = await connect_all([server("plain", alias=alias) for alias in ("a", "b")])
        pids.extend(connection.pid for connection in connections if connection.pid is not None)
        cancel()
        await close_all(connections)

    await cancelled_at_once(body)
    assert len(pids) == 2
    assert all(map(is_gone, pids))


async def test_servers_of_an_agent_are_ended(server, is_gone):
    pids: list[int | None] = []

    async def body(cancel: Callable[[], object]) -> None:
        async with Agent(model=ScriptedModel(["x"]), tools=[server("plain")]) as agent:
            pids.append(agent.mcp_connection("bad").pid)
            cancel()

    await cancelled_at_once(body)
    assert all(pid is not None and is_gone(pid) for pid in pids)
