"""What a link promises, over every transport and in both protocol eras."""

from __future__ import annotations

import asyncio

import pytest

from agentkit.toolset import McpConnection
from agentkit.toolset.mcp.links.link import McpLink

pytestmark = pytest.mark.timeout(60)

TOOLS = ("change", "echo", "hang", "large", "log", "work")


@pytest.fixture(params=["auto", "legacy"])
def protocol(request):
    return request.param


async def open_link(server, protocol) -> McpLink:
    deadline = asyncio.get_running_loop().time() + 30
    return await McpLink.open(server, protocol, deadline)


async def test_every_transport_lists_and_calls_in_both_eras(reach, honest_server, protocol):
    async with reach(honest_server(), protocol=protocol) as server:
        async with asyncio.timeout(30), server.connect() as connection:
            assert tuple(tool.original_name for tool in connection.tools) == TOOLS
            output = await connection.call("echo", {"text": "grüße 🎈"})
            assert (output.content, output.is_error) == ("grüße 🎈", False)
            assert connection.warnings == ()


async def test_the_era_is_the_newest_that_both_sides_know(reach, honest_server, protocol):
    async with reach(honest_server()) as server:
        link = await open_link(server, protocol)
        is_modern = link.session.discover_result is not None
        assert is_modern == (protocol == "auto" and server.transport != "sse")
        await link.close()


async def test_a_call_that_hangs_times_out_and_the_link_goes_on(reach, honest_server, protocol):
    options = {"protocol": protocol, "tool_timeouts_s": {"hang": 0.5}}
    async with reach(honest_server(), **options) as server:
        async with asyncio.timeout(30), server.connect() as connection:
            output = await connection.call("hang", {})
            assert output.content.startswith("MCP server 'peer' did not answer within 0.5 s.")
            assert (await connection.call("echo", {"text": "still"})).content == "still"


async def test_a_cancelled_call_leaves_the_link_usable(reach, honest_server, protocol):
    async with reach(honest_server(), protocol=protocol) as server:
        async with asyncio.timeout(30), server.connect() as connection:
            call = asyncio.create_task(connection.call("hang", {}))
            assert (await connection.call("echo", {"text": "a"})).content == "a"
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await connection.call("echo", {"text": "b"})).content == "b"


async def test_a_list_change_is_heard_in_both_eras(reach, honest_server, protocol):
    async with reach(honest_server()) as server:
        async with asyncio.timeout(30):
            link = await open_link(server, protocol)
            await link.request("tools/call", {"name": "change", "arguments": {}}, 20)
            await link.list_changed.wait()
            await link.close()


async def test_progress_is_told_and_extends_the_patience(reach, honest_server, protocol):
    told = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with reach(honest_server()) as server:
        async with asyncio.timeout(30):
            link = await open_link(server, protocol)
            work = {"name": "work", "arguments": {"n_steps": 6, "pause_s": 0.25}}
            # In all 1.5 s, with a limit of 1 s between two signs of life.
            result = await link.request("tools/call", work, 1.0, note)
            assert not result.get("isError")
            assert told == [(n, 6.0, f"step {n}") for n in range(1, 7)]
            await link.close()


async def test_calls_from_many_tasks_run_at_the_same_time(reach, honest_server, protocol):
    async with reach(honest_server(), protocol=protocol) as server:
        async with asyncio.timeout(30), server.connect() as connection:
            hanging = asyncio.create_task(connection.call("hang", {}))
            calls = [connection.call("echo", {"text": str(n)}) for n in range(20)]
            outputs = await asyncio.gather(*calls)
            assert [output.content for output in outputs] == [str(n) for n in range(20)]
            assert not hanging.done()
            hanging.cancel()


async def test_closing_under_cancellation_ends_soon(reach, honest_server):
    async with reach(honest_server()) as server:
        connection: McpConnection = server.connect()
        await connection.open()
        waiting = asyncio.create_task(connection.call("hang", {}))
        await connection.call("echo", {"text": "x"})
        closing = asyncio.create_task(connection.close())
        await asyncio.sleep(0)
        closing.cancel()
        async with asyncio.timeout(15):
            await asyncio.wait([closing])
            assert (await waiting).is_error
