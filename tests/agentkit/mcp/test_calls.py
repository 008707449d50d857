"""Calls to real server processes with bad manners: every one ends, with an answer for the model."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from mcp import MCPError

from agentkit.toolset import McpConnection, ToolOutput, Toolset, execute_calls

pytestmark = pytest.mark.timeout(60)


async def call(connection: McpConnection, name: str, **arguments: object) -> ToolOutput:
    async with asyncio.timeout(30):
        return await connection.call(name, arguments)


async def test_a_tool_call_reaches_the_server_under_its_own_name(server, context):
    async with server("plain").connect() as connection:
        tool = Toolset(connection.tools).get("bad__echo")
        assert tool.original_name == "echo"
        assert tool.spec.source == "MCP server 'bad'"
        output = await tool.call({"text": "grüße 🎈"}, context)
    assert output == ToolOutput(content="grüße 🎈")


async def test_many_calls_from_many_tasks_share_one_session(server):
    async with server("plain").connect() as connection:
        calls = [call(connection, "echo", text=str(n)) for n in range(50)]
        outputs = await asyncio.gather(*calls)
    assert [output.content for output in outputs] == [str(n) for n in range(50)]


async def test_lines_that_are_no_messages_are_counted_and_otherwise_ignored(server):
    """M31: a banner on stdout ended the session."""
    async with server("pollute").connect() as connection:
        assert (await call(connection, "echo", text="fine")).content == "fine"
        assert connection.warnings == (
            "5 lines on stdout are no messages; the first is '*** Welcome to scripted 1.0 ***'",
        )


async def test_other_encodings_are_replaced_and_nothing_hangs(server):
    """M32: other encodings killed the stream."""
    async with server("latin1_banner").connect() as connection:
        assert (await call(connection, "latin1")).content == "caf\ufffd"
        assert (await call(connection, "surrogate")).content == "half ? pair"
        assert (await call(connection, "crlf")).content == "windows"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("truncated", "sent an answer that is no valid JSON"),
        ("not_rpc", "sent an answer that is no JSON-RPC message"),
        ("huge_line", "sent an answer of 20000073 bytes on one line, above the limit"),
    ],
)
async def test_an_unreadable_answer_fails_its_call_at_once_and_only_that(server, name, words):
    async with server("plain").connect() as connection:
        started = time.monotonic()
        broken, fine = await asyncio.gather(
            call(connection, name), call(connection, "echo", text="fine")
        )
        assert time.monotonic() - started < 10
        assert broken.is_error
        assert words in broken.content
        assert fine.content == "fine"
        assert (await call(connection, "echo", text="still")).content == "still"


async def test_a_long_result_is_cut_before_the_model_sees_it(server):
    async with server("plain", max_result_chars=1000).connect() as connection:
        output = await call(connection, "long")
    assert len(output.content) <= 1000
    assert "450000 characters in all" in output.content
    assert (output.content[0], output.content[-1]) == ("a", "z")


async def test_a_call_without_an_answer_times_out_and_the_session_goes_on(server):
    async with server("plain", call_timeout_s=1.5).connect() as connection:
        output = await call(connection, "hang")
        assert output == ToolOutput.error(
            "MCP server 'bad' did not answer within 1.5 s. "
            "Whether the call had an effect is unknown."
        )
        state = json.loads((await call(connection, "state")).content)
        assert state == {"cancelled": 1, "pid": connection.pid}


async def test_calls_to_a_server_that_stops_reading_all_end_at_the_timeout(server, is_gone):
    async with server("plain", call_timeout_s=1.5).connect() as connection:
        pid = connection.pid
        started = time.monotonic()
        large = [call(connection, "echo", text="y" * 200_000) for _ in range(3)]
        outputs = await asyncio.gather(call(connection, "stop_reading"), *large)
        assert time.monotonic() - started < 4
        assert all(output.is_error for output in outputs)
        assert "stopped reading its input and was ended" in outputs[-1].content
        assert is_gone(pid)
        assert (await call(connection, "echo", text="anew")).content == "anew"
        assert connection.warnings == (
            "the server was restarted: it stopped reading its input and was ended",
        )


async def test_a_call_cancelled_in_a_blocked_write_ends_soon(server):
    async with server("plain").connect() as connection:
        asleep = asyncio.create_task(call(connection, "stop_reading"))
        large = asyncio.create_task(call(connection, "echo", text="y" * 200_000))
        await asyncio.wait([large], timeout=0.5)
        started = time.monotonic()
        for task in (asleep, large):
            task.cancel()
        await asyncio.wait([asleep, large])
        assert time.monotonic() - started < 2


async def test_a_cancelled_call_leaves_the_session_usable_and_tells_the_server(server):
    async with server("plain").connect() as connection:
        task = asyncio.create_task(call(connection, "hang"))
        assert (await call(connection, "echo", text="meanwhile")).content == "meanwhile"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert json.loads((await call(connection, "state")).content)["cancelled"] == 1


async def test_a_crash_is_an_answer_is_never_replayed_and_the_next_call_starts_anew(
    server, tmp_path
):
    log = tmp_path / "calls"
    async with server("plain", str(log)).connect() as connection:
        first_pid = connection.pid
        output = await call(connection, "crash")
        assert output == ToolOutput.error(
            "MCP server 'bad' ended with exit code 7; its stderr says: out of cheese. "
            "Whether the call had an effect is unknown; the next call starts the server again."
        )
        again = await asyncio.gather(*(call(connection, "echo", text=str(n)) for n in range(5)))
        assert [each.content for each in again] == ["0", "1", "2", "3", "4"]
        assert connection.pid != first_pid
        assert log.read_text() == "called\n"
        assert connection.warnings == (
            "the server was restarted: it ended with exit code 7; its stderr says: out of cheese",
        )


async def test_a_server_that_dies_fails_all_waiting_calls(server):
    async with server("plain").connect() as connection:
        waiting = [asyncio.create_task(call(connection, "hang")) for _ in range(3)]
        await call(connection, "state")
        assert (await call(connection, "crash")).is_error
        outputs = await asyncio.gather(*waiting)
        assert all("ended with exit code 7" in output.content for output in outputs)


async def test_a_server_that_closes_its_stdout_counts_as_dead(server, is_gone):
    async with server("plain").connect() as connection:
        pid = connection.pid
        output = await call(connection, "close_stdout")
        assert "closed the connection without a word" in output.content
        assert (await call(connection, "echo", text="new")).content == "new"
        assert is_gone(pid)


async def test_other_tools_after_a_restart_do_not_move_the_pinned_ones(server, tmp_path):
    flag = tmp_path / "flag"
    async with server("drift", str(flag)).connect() as connection:
        shown = connection.tools
        before = Toolset(shown).bytes
        await call(connection, "crash")
        assert (await call(connection, "echo", text="back")).content == "back"
        assert Toolset(shown).bytes == before
        assert Toolset(connection.tools).bytes != before
        assert (
            "the tools have changed (added: bad__new; removed: bad__hang, bad__state; "
            "changed: bad__echo)"
        ) in connection.warnings


async def test_announced_changes_that_are_none_are_no_change(server):
    async with server("changes").connect() as connection:
        await call(connection, "echo", text="a")
        await call(connection, "echo", text="b")
        await connection.recheck()
        assert connection.offered.revision == 1
        assert connection.warnings == ()


async def test_a_server_that_cannot_start_again_is_an_answer(server, tmp_path):
    script = tmp_path / "once.py"
    origin = server("plain").command
    script.write_text(
        f"import runpy, sys; sys.argv = {list(origin[2:])!r}; runpy.run_path(sys.argv[0])"
    )
    command = [origin[0], "-S", str(script)]
    async with type(server("plain"))(alias="once", command=command).connect() as connection:
        await call(connection, "crash")
        script.write_text("raise SystemExit('no more')")
        output = await call(connection, "echo", text="x")
        assert output.is_error
        assert (
            "MCP server 'once' ended with exit code 1; its stderr says: no more" in output.content
        )
        assert output.content.endswith("The call was not sent.")


async def test_server_errors_and_bad_arguments_are_answers(server):
    async with server("plain").connect() as connection:
        assert await call(connection, "refuse") == ToolOutput.error(
            "MCP server 'bad' answered with an error: Unknown tool: refuse (code -32602)."
        )
        assert "cannot be sent" in (await call(connection, "echo", text="\ud83d")).content
        assert "cannot be sent" in (await call(connection, "echo", text={1, 2})).content
        assert "cannot be sent" in (await call(connection, "e\ud800cho")).content


async def test_a_message_that_cannot_be_written_ends_all_calls_at_once_and_the_next_one_works(
    server,
):
    async with server("plain").connect() as connection:
        waiting = asyncio.create_task(call(connection, "hang"))
        await call(connection, "state")
        started = time.monotonic()
        with pytest.raises(MCPError):
            await connection._link.request("odd", {"value": object()}, 20)
        assert "could not be sent a message" in (await waiting).content
        assert time.monotonic() - started < 5
        assert (await call(connection, "echo", text="anew")).content == "anew"


async def test_structured_and_failed_results_come_through(server):
    result = {
        "content": [{"type": "text", "text": "quota exceeded"}],
        "structuredContent": {"retry_s": 5},
        "isError": True,
    }
    async with server("plain").connect() as connection:
        output = await call(connection, "result", text=json.dumps(result))
        assert output == ToolOutput(
            content='quota exceeded\n{"retry_s":5}', is_error=True, structured={"retry_s": 5}
        )
        assert (await call(connection, "result", text='{"content": "?"}')).is_error


async def test_a_server_sees_only_the_chosen_environment(server, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("REGION", "north")
    configured = server("plain", env={"MODE": "test"}, inherit_env=["REGION", "ABSENT"])
    async with configured.connect() as connection:
        seen = json.loads((await call(connection, "environment")).content)
    assert "API_KEY" not in seen
    assert (seen["REGION"], seen["MODE"], seen["PYTHONHASHSEED"]) == ("north", "test", "0")
    assert "PATH" in seen


async def test_a_server_that_dies_of_the_modern_probe_is_asked_in_the_old_way(server):
    async with server("exits_on_unknown").connect() as connection:
        assert (await call(connection, "echo", text="old")).content == "old"
        await call(connection, "crash")
        assert (await call(connection, "echo", text="again")).content == "again"


async def test_calls_of_a_turn_run_through_the_toolset(server, context):
    class Written:
        def __init__(self, id: str, name: str, arguments: str) -> None:
            self.id, self.name, self.arguments = id, name, arguments

    async with server("plain", call_timeout_s=1.5).connect() as connection:
        outputs = await execute_calls(
            Toolset(connection.tools),
            [
                Written("1", "bad__hang", "{}"),
                Written("2", "bad__echo", '{"text": "b"}'),
                Written("3", "bad__echoo", "{}"),
            ],
            allowed=frozenset({"bad__echo", "bad__hang"}),
            context_factory=lambda call: context,
        )
    assert [output.is_error for output in outputs] == [True, False, True]
    assert "Did you mean 'bad__echo'" in outputs[2].content
