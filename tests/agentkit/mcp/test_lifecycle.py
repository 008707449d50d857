"""Starting and ending server processes: nothing hangs, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time

import pytest
from mcp.server import MCPServer

from agentkit.toolset import McpConnectError, McpServer, connect_all
from agentkit.toolset.mcp.links import link as link_module
from agentkit.toolset.mcp.links.link import McpLink
from agentkit.toolset.mcp.links.memory import MemoryTransport
from agentkit.toolset.mcp.links.process import ServerProcess
from agentkit.toolset.mcp.starting import LinkStarter

pytestmark = pytest.mark.timeout(60)


async def test_leaving_ends_the_process_and_closing_twice_is_fine(server, is_gone):
    async with asyncio.timeout(30), server("plain").connect() as connection:
        pid = connection.pid
    assert is_gone(pid)
    await connection.close()
    output = await connection.call("echo", {"text": "x"})
    assert output.is_error
    assert output.content.startswith("MCP server 'bad' is closed; connect it again.")


async def test_grandchildren_do_not_outlive_a_server_that_exits_politely(server, is_gone):
    """M26: launchers left hundreds of orphans."""
    async with asyncio.timeout(30), server("plain").connect() as connection:
        child = int((await connection.call("child", {})).content)
        assert not is_gone_now(child)
    assert is_gone(child)


async def test_grandchildren_do_not_outlive_a_server_that_crashes(server, is_gone):
    async with asyncio.timeout(30), server("plain").connect() as connection:
        child = int((await connection.call("child", {})).content)
        # The grandchild holds the server's stdout open, so the end of the process must be noticed.
        started = time.monotonic()
        assert "ended with exit code 7" in (await connection.call("crash", {})).content
        assert time.monotonic() - started < 10
        assert (await connection.call("echo", {"text": "x"})).content == "x"
        assert is_gone(child)


async def test_a_server_that_ignores_every_request_to_end_is_killed(server, is_gone):
    async with asyncio.timeout(30), server("stubborn").connect() as connection:
        pid = connection.pid
    assert is_gone(pid)


async def test_a_silent_server_fails_after_the_connect_timeout_with_its_stderr(server):
    with pytest.raises(McpConnectError) as caught:
        async with asyncio.timeout(30):
            await server("silent", connect_timeout_s=2).connect().open()
    assert str(caught.value) == (
        "MCP server 'bad' did not come up within 2 s; its stderr says: thinking"
    )


async def test_cancelling_a_connect_leaves_no_process(server, is_gone, monkeypatch):
    pids, started = remember_pids(monkeypatch, 1)
    connection = server("silent").connect()
    task = asyncio.create_task(connection.open())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert is_gone(pids[0])
    await connection.close()


async def test_cancelling_connect_all_closes_those_that_had_connected(server, is_gone, monkeypatch):
    pids, started = remember_pids(monkeypatch, 2)
    quick_is_up = asyncio.Event()
    start = LinkStarter.start

    async def start_and_tell(starter: LinkStarter) -> McpLink:
        link = await start(starter)
        quick_is_up.set()
        return link

    monkeypatch.setattr(LinkStarter, "start", start_and_tell)
    task = asyncio.create_task(
        connect_all([server("plain", alias="quick"), server("silent", alias="slow")])
    )
    await started.wait()
    await quick_is_up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert all(is_gone(pid) for pid in pids)


async def test_leaving_under_cancellation_leaves_no_process(server, is_gone):
    """M25: processes leaked where leaving was cancelled."""
    connection = server("stubborn").connect()
    await connection.open()
    pid = connection.pid
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0.05)
    closing.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await closing
    assert time.monotonic() - started < 1
    assert is_gone(pid)


async def test_a_cancelled_scope_around_a_connection_ends_it(server, is_gone):
    pids = []
    is_in_call = asyncio.Event()

    async def work() -> None:
        async with server("plain").connect() as connection:
            pids.append(connection.pid)
            pids.append(int((await connection.call("child", {})).content))
            is_in_call.set()
            await connection.call("hang", {})

    task = asyncio.create_task(work())
    await is_in_call.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert all(is_gone(pid) for pid in pids)


async def test_a_connection_may_be_opened_and_closed_by_different_tasks_in_any_order(
    server, is_gone
):
    async with asyncio.timeout(30):
        connections = await connect_all([server("plain", alias=alias) for alias in ("a", "b", "c")])
        pids = [connection.pid for connection in connections]
        for connection in (connections[1], connections[0], connections[2]):
            await asyncio.create_task(connection.close())
    assert all(is_gone(pid) for pid in pids)


async def test_closing_while_a_call_restarts_the_server_leaves_no_process(
    server, is_gone, monkeypatch
):
    pids, restarted = remember_pids(monkeypatch, 2)
    async with asyncio.timeout(30):
        connection = server("plain").connect()
        await connection.open()
        await connection.call("crash", {})
        again = asyncio.create_task(connection.call("echo", {"text": "x"}))
        await restarted.wait()
        await connection.close()
        assert "is closed" in (await again).content
    assert all(is_gone(pid) for pid in pids)


async def test_a_server_whose_restart_was_cancelled_is_ended_by_leaving(
    server, is_gone, monkeypatch
):
    is_asked = asyncio.Event()
    problem = McpLink.problem

    async def watched(link: McpLink) -> str:
        is_asked.set()
        return await problem(link)

    async with asyncio.timeout(30):
        connection = server("stubborn").connect()
        await connection.open()
        pid = connection.pid
        # It says nothing more, but lives.
        assert (await connection.call("close_stdout", {})).is_error
        monkeypatch.setattr(McpLink, "problem", watched)
        again = asyncio.create_task(connection.call("echo", {"text": "x"}))
        await is_asked.wait()
        again.cancel()
        await asyncio.wait([again])
        assert again.cancelled()
        await connection.close()
    assert is_gone(pid)


async def test_leaving_that_is_cancelled_waits_for_a_restart_and_ends_it(
    server, is_gone, monkeypatch
):
    pids, restarted = remember_pids(monkeypatch, 2)
    async with asyncio.timeout(30):
        connection = server("plain").connect()
        await connection.open()
        await connection.call("crash", {})
        again = asyncio.create_task(connection.call("echo", {"text": "x"}))
        await restarted.wait()
        closing = asyncio.create_task(connection.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert connection.pid is None
        assert all(is_gone_now(pid) for pid in pids)
        await again


async def test_a_transport_that_never_ends_does_not_hold_up_leaving(monkeypatch, caplog):
    """A server object that takes no notice of anything cannot be killed; it is left, and said."""
    monkeypatch.setattr(link_module, "_LEAVE_S", 0.1)
    release = asyncio.Event()

    async def stay(*_: object) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    monkeypatch.setattr(MemoryTransport, "_finish", stay)
    alias = "here"
    async with asyncio.timeout(10):
        async with McpServer(alias=alias, server=MCPServer("here")).connect() as connection:
            assert connection.warnings == ()
        assert "here: its connection cannot be ended" in caplog.text
        release.set()
        await asyncio.gather(
            *(task for task in asyncio.all_tasks() if task.get_name() == f"mcp-{alias}"),
            return_exceptions=True,
        )


async def test_closing_answers_the_calls_that_still_wait(server):
    async with asyncio.timeout(30):
        connection = server("plain").connect()
        await connection.open()
        waiting = asyncio.create_task(connection.call("hang", {}))
        await connection.call("state", {})
        await connection.close()
        assert (await waiting).is_error


def test_the_end_of_the_loop_ends_a_server_that_nobody_closed(server, is_gone):
    async def forget() -> int:
        connection = server("plain").connect()
        await connection.open()
        return json.loads((await connection.call("state", {})).content)["pid"]

    assert is_gone(asyncio.run(forget()))


def is_gone_now(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def remember_pids(monkeypatch: pytest.MonkeyPatch, n: int) -> tuple[list[int], asyncio.Event]:
    """The ids of the processes that are started, and an event that is set when there are `n`."""
    pids: list[int] = []
    started = asyncio.Event()
    start = ServerProcess.start

    async def remembering(*args: object) -> ServerProcess:
        process = await start(*args)  # type: ignore[arg-type]
        pids.append(process.pid)
        if len(pids) == n:
            started.set()
        return process

    monkeypatch.setattr(ServerProcess, "start", remembering)
    return pids, started


async def test_a_call_from_another_event_loop_is_refused_at_once(server):
    """It would wait for its whole time: the answer comes to the loop that has connected."""
    async with asyncio.timeout(30), server("plain").connect() as connection:
        output = await asyncio.to_thread(asyncio.run, connection.call("echo", {"text": "x"}))
        assert "is connected in another event loop; call it there" in output.content
        assert (await connection.call("echo", {"text": "x"})).content == "x"
