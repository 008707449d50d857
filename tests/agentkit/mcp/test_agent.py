"""Agents with MCP servers: connected for a run or longer, shared in a team, never left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit import Agent, ConfigurationError, Document, McpServer
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable, assert_stable_build
from agentkit.toolset import McpConnectError
from tests.agentkit.tool_results import result_texts

SERVER = """
import os, random, sys
from mcp.server import MCPServer
server = MCPServer("notes")
def pid() -> int:
    "The process id."
    return os.getpid()
def note(text: str) -> str:
    "Take a note."
    return f"noted {text}"
def die() -> str:
    "Die."
    os._exit(3)
tools = [pid, note, die]
random.shuffle(tools)
for each in tools:
    server.tool()(each)
server.run("stdio")
"""


@pytest.fixture
def server(tmp_path: Path) -> McpServer:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return McpServer(alias="notes", command=[sys.executable, str(path)], connect_timeout_s=60)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def script() -> list[Call | str]:
    return [Call("notes__pid"), "done"]


async def test_a_server_lives_for_one_run_and_lists_the_same_bytes_each_time(
    server: McpServer,
) -> None:
    """C2: a server that lists its tools in another order each time moved the tools block."""
    model = ScriptedModel([*script(), *script()])
    agent = Agent(model=model, tools=[server])

    first = await agent.run("x")
    second = await agent.run("y", context=first.context)

    pids = [int(result) for record in (first, second) for result in result_texts(record)]
    assert len(set(pids)) == 2
    assert not any(map(is_alive, pids))
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert model.calls[0].request.toolset.names == ("notes__die", "notes__note", "notes__pid")
    assert model.calls[2].wire.startswith(model.calls[1].wire)


async def test_an_open_agent_keeps_its_server_for_many_runs(server: McpServer) -> None:
    model = ScriptedModel(lambda r: Call("notes__pid") if len(r.context.messages) == 1 else "done")
    async with Agent(model=model, tools=[server]) as agent:
        records = await asyncio.gather(*(agent.run("x") for _ in range(3)))
        pids = {result for record in records for result in result_texts(record)}
        assert len(pids) == 1
        assert is_alive(int(*pids))
        with pytest.raises(ConfigurationError, match="open already"):
            await agent.__aenter__()

    assert not is_alive(int(*pids))


async def test_another_event_loop_gets_a_server_of_its_own(server: McpServer) -> None:
    """A connection belongs to its loop; using it from another one would hang."""
    model = ScriptedModel(lambda r: Call("notes__pid") if len(r.context.messages) == 1 else "done")
    async with Agent(model=model, tools=[server]) as agent:
        ours = await agent.run("x")
        async with asyncio.timeout(60):
            theirs = await asyncio.to_thread(agent.run_sync, "x")

    assert result_texts(ours) != result_texts(theirs)


async def test_a_team_shares_one_server_and_one_toolset(server: McpServer) -> None:
    reader = Agent(name="reader", instructions="You read.", tools=[server])
    model = ScriptedModel(
        {
            "boss": [Call("notes__pid"), Call("delegate_to_reader", {"task": "t"}), "done"],
            "reader": script(),
        }
    )
    result = await Agent(model=model, name="boss", tools=[server], subagents=[reader]).run("x")

    child = result.children[0]
    assert child.kind == "ok"
    assert result_texts(result)[0] == result_texts(child.result)[0]
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert_prefix_stable(model.calls)


async def test_a_server_that_dies_is_an_error_result_and_comes_back(server: McpServer) -> None:
    model = ScriptedModel([Call("notes__die"), Call("notes__note", {"text": "a"}), "done"])
    result = await Agent(model=model, tools=[server]).run("x")

    died, noted = result_texts(result)
    assert "notes" in died
    assert noted == "noted a"


async def test_a_server_that_reconnects_moves_no_tool(server: McpServer) -> None:
    """C4: a reconnecting server's tools were taken out and put in again at the end."""
    second = McpServer(alias="second", command=server.command, connect_timeout_s=60)
    steps = [
        Call("second__note", {"text": "a"}),
        Call("notes__die"),
        Call("notes__note", {"text": "b"}),
        "done",
    ]
    model = ScriptedModel(steps)
    result = await Agent(model=model, tools=[server, second]).run("x")

    assert result_texts(result)[2] == "noted b"
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert_prefix_stable(model.calls)


PROGRAM = """
import sys
from agentkit import Agent, McpServer
from agentkit.testing import ScriptedModel
command = [sys.executable, sys.argv[1]]
names = ("notes", "files")
servers = {McpServer(alias=n, command=command, connect_timeout_s=60) for n in names}
model = ScriptedModel(["done"])
Agent(model=model, tools=list(servers)).run_sync("x")
sys.stdout.buffer.write(model.calls[0].request.toolset.bytes)
"""


def test_servers_in_a_set_give_the_same_tools_in_every_process(
    server: McpServer, tmp_path: Path
) -> None:
    """C1: servers were kept in an unordered map, and less than 1 % was read from the cache."""
    seen = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "server.py")],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    (tools,) = seen
    assert tools.count(b'"name":"') == 6


async def test_builds_with_a_server_that_shuffles_its_list_are_equal(server: McpServer) -> None:
    model = ScriptedModel(["never"])

    assert_stable_build(lambda: Agent(model=model, name="clerk", tools=[server]))


async def test_a_server_that_cannot_be_used_ends_the_run_before_the_model_is_asked(
    server: McpServer,
) -> None:
    broken = McpServer(alias="broken", command=[sys.executable, "-c", "raise SystemExit('no key')"])
    model = ScriptedModel(["never"])

    with pytest.raises(McpConnectError, match=r"'broken'.*no key"):
        await Agent(model=model, tools=[server, broken]).run("x")
    assert model.calls == ()


async def test_what_is_odd_about_a_server_is_logged_once(
    server: McpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "server.py"
    path.write_text("print('a banner', flush=True)\n" + path.read_text())
    await Agent(model=ScriptedModel([*script()]), tools=[server]).run("x")

    (record,) = [record for record in caplog.records if record.name == "agentkit.mcp"]
    assert "'notes'" in record.getMessage()
    assert "a banner" in record.getMessage()


async def test_two_different_servers_may_not_have_one_alias(server: McpServer) -> None:
    other = McpServer(alias="notes", command=[sys.executable, "-c", ""])

    with pytest.raises(ConfigurationError, match="alias"):
        await Agent(model=ScriptedModel(["x"]), tools=[server, other]).run("x")


async def test_leaving_a_stream_early_ends_the_server(server: McpServer) -> None:
    model = ScriptedModel([Call("notes__pid"), "a long answer that nobody reads to its end"])
    stream = Agent(model=model, tools=[server]).stream("x")
    async with stream:
        async for event in stream:
            if event.kind == "tool_result_event":
                break

    record = stream.record
    assert record is not None
    assert not is_alive(int(result_texts(record)[0]))


async def test_a_list_of_documents_that_grows_after_the_first_run_changes_no_later_run(
    server: McpServer,
) -> None:
    knowledge = [Document(uri="a", text="A")]
    model = ScriptedModel(["one", "two"])
    agent = Agent(model=model, name="clerk", tools=[server], knowledge=knowledge)

    first = await agent.run("x")
    knowledge.append(Document(uri="b", text="B"))
    second = await agent.run("y", context=first.context)

    assert second.output == "two"
    assert_prefix_stable(model.calls)
