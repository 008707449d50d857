"""What happens during a call: rounds, cancellation, errors, log lines, promises about results."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from agentkit import Agent, LimitReached, Limits, McpServer
from agentkit.blocks import ToolMessage
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import ToolPolicy
from agentkit.toolset.caller import NOBODY, Caller, Declined, Question
from agentkit.toolset.mcp.calls import rounds as rounds_module
from agentkit.toolset.mcp.calls.asking import Asking, Refused
from agentkit.toolset.mcp.calls.logs import ServerLog
from agentkit.toolset.mcp.calls.rounds import with_answers
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from tests.agentkit.test_deadlines import run_virtually

ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


class Bell:
    """A server whose tool waits, and notes how that ended."""

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()
        self.n_calls = 0
        self.server = MCPServer("bell")

        @self.server.tool()
        async def wait(context: Context[Any]) -> str:
            """Wait."""
            self.n_calls += 1
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never"

        @self.server.tool()
        async def ring() -> str:
            """Ring."""
            return "ding"

        @self.server.tool()
        async def work(context: Context[Any]) -> str:
            """Report progress, for longer than the idle limit."""
            for step in range(5):
                await asyncio.sleep(0.1)
                await context.report_progress(step)
            return "worked"


@ERAS
def test_the_server_hears_that_a_limit_has_ended_its_call(
    protocol: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = SimpleNamespace(monotonic=asyncio.get_running_loop().time, time=time.time)
        monkeypatch.setattr("agentkit.state.time", clock)
        bell = Bell()
        server = McpServer(alias="bell", server=bell.server, protocol=protocol)
        agent = Agent(
            model=ScriptedModel([Call("bell__wait"), "Never."]),
            tools=[server],
            limits=Limits(seconds=0.5),
        )
        async with agent:
            with pytest.raises(LimitReached) as caught:
                await agent.run("Go.")
            await asyncio.wait_for(bell.cancelled.wait(), 10)
        assert caught.value.partial is not None
        (message,) = [m for m in caught.value.partial.messages if isinstance(m, ToolMessage)]
        assert "cancelled" in message.results[0].content

    run_virtually(main())


@ERAS
async def test_a_cancelled_call_leaves_the_session_usable(protocol: Any) -> None:
    bell = Bell()
    server = McpServer(alias="bell", server=bell.server, protocol=protocol)
    async with server.connect() as connection:
        waiting = asyncio.create_task(connection.call("wait", {}))
        await asyncio.wait_for(bell.begun.wait(), 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(bell.cancelled.wait(), 10)
        assert (await connection.call("ring", {})).content == "ding"
        assert bell.n_calls == 1


@ERAS
def test_a_timeout_is_an_answer_tells_the_server_and_is_not_tried_again(protocol: Any) -> None:
    """M28, M29, M34: hanging for ever, hidden limits, and calls that were made twice."""

    async def main() -> None:
        bell = Bell()
        server = McpServer(
            alias="bell", server=bell.server, protocol=protocol, tool_timeouts_s={"wait": 0.2}
        )
        async with server.connect() as connection:
            output = await connection.call("wait", {})
            assert output.is_error
            assert "did not answer within 0.2 s" in output.content
            assert "unknown" in output.content
            await asyncio.wait_for(bell.cancelled.wait(), 10)
            assert (await connection.call("ring", {})).content == "ding"
        assert bell.n_calls == 1

    run_virtually(main())


def test_a_call_is_tried_again_only_where_its_policy_says_so() -> None:
    bell = Bell()
    server = McpServer(
        alias="bell",
        server=bell.server,
        call_timeout_s=0.1,
        policies={"wait": ToolPolicy(retries=1, retry_wait_s=0)},
    )
    agent = Agent(model=ScriptedModel([Call("bell__wait"), "Done."]), tools=[server])
    run_virtually(agent.run("Go."))
    assert bell.n_calls == 2


def test_progress_keeps_a_long_call_alive_beyond_its_idle_limit() -> None:
    async def main() -> None:
        server = McpServer(alias="bell", server=Bell().server, call_timeout_s=0.4)
        async with server.connect() as connection:
            assert (await connection.call("work", {})).content == "worked"

    run_virtually(main())


def lowlevel(on_call: Callable[[str, Mapping[str, Any]], Any], **tool: Any) -> Server[Any]:
    """A server that answers with exactly what it is told to."""
    spec = Tool(name="t", input_schema={"type": "object"}, **tool)

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[spec], ttl_ms=0, cache_scope="private")

    async def call_tool(context: Any, params: Any) -> Any:
        return on_call(params.name, params.arguments or {})

    return Server("low", on_list_tools=list_tools, on_call_tool=call_tool)


@ERAS
@pytest.mark.parametrize(
    ("structured", "note"), [({"celsius": 21}, False), ({"celsius": "warm"}, True), (None, True)]
)
async def test_a_result_that_breaks_its_tools_promise_is_kept_and_flagged(
    protocol: Any, structured: Any, note: bool
) -> None:
    """M40: a good result was thrown away, though the call had had its effect."""
    schema = {"type": "object", "properties": {"celsius": {"type": "number"}}}
    result = CallToolResult(
        content=[TextContent(type="text", text="mild")], structured_content=structured
    )
    server = lowlevel(lambda name, arguments: result, output_schema=schema)
    async with McpServer(alias="low", server=server, protocol=protocol).connect() as connection:
        output = await connection.call("t", {})
    assert not output.is_error
    assert output.content.startswith("mild")
    assert ("not of the form that the tool promises" in output.content) is note
    assert output.structured == structured


@ERAS
async def test_an_error_of_a_tool_keeps_its_text_and_its_structure(protocol: Any) -> None:
    """M37, M38: structured content of errors was lost, and errors ended the run."""
    result = CallToolResult(
        content=[TextContent(type="text", text="quota")],
        structured_content={"retry_s": 5},
        is_error=True,
    )
    server = McpServer(
        alias="low", server=lowlevel(lambda name, arguments: result), protocol=protocol
    )
    model = ScriptedModel([Call("low__t"), "Pity."])
    record = await Agent(model=model, tools=[server]).run("Go.")
    (message,) = [m for m in record.messages if isinstance(m, ToolMessage)]
    assert message.results[0].content == 'quota\n{"retry_s":5}'
    assert message.results[0].is_error
    assert record.output == "Pity."


@ERAS
async def test_what_a_server_says_in_an_error_is_bounded(protocol: Any) -> None:
    from mcp import MCPError

    pages = [{"url": f"https://bank.test/{i}"} for i in range(100)]
    data = {"elicitations": [*pages[:2], "junk", *pages[2:]]}

    def fail(name: str, arguments: Mapping[str, Any]) -> Any:
        raise MCPError(code=-32042, message="x" * 1_000_000, data=data)

    server = McpServer(alias="low", server=lowlevel(fail), protocol=protocol)
    async with server.connect() as connection:
        output = await connection.call("t", {})
    assert output.is_error
    assert len(output.content) <= 10_000
    assert "https://bank.test/1" in output.content
    assert "https://bank.test/9" not in output.content


def asking(**settings: Any) -> Asking:
    return Asking(McpServer(alias="low", command=["x"], **settings), NOBODY)


def asks(**more: Any) -> dict[str, Any]:
    return {"resultType": "input_required", **more}


class Rounds:
    """A server of the modern protocol, as far as a call of it can tell."""

    def __init__(self, *results: dict[str, Any]) -> None:
        self.results = list(results)
        self.sent: list[Mapping[str, object]] = []
        self.slept: list[float] = []

    async def send(self, more: Mapping[str, object]) -> Mapping[str, object]:
        self.sent.append(dict(more))
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


FORM = {
    "method": "elicitation/create",
    "params": {"message": "q", "requestedSchema": {"type": "object", "properties": {}}},
}


async def test_the_state_of_a_call_goes_back_as_it_came_and_answers_by_their_keys() -> None:
    state = 'opaque "\u00fc\ud83d'
    rounds = Rounds(
        asks(inputRequests={"a": FORM, "b": FORM}, requestState=state),
        asks(inputRequests={"c": FORM}),
        {"content": []},
    )
    assert await with_answers(rounds.send, asking(elicits=True)) == {"content": []}
    declined = {"action": "decline"}
    assert rounds.sent == [
        {},
        {"inputResponses": {"a": declined, "b": declined}, "requestState": state},
        {"inputResponses": {"c": declined}},
    ]


class Keeps(Caller):
    """Declines all questions, and notes how long what would be kept for later is."""

    def __init__(self) -> None:
        self.n_chars: list[int] = []

    async def ask(self, question: Question, *, kept: str | None) -> Declined:
        self.n_chars.append(0 if kept is None else len(kept))
        return Declined("no")


async def test_many_long_questions_are_written_down_only_if_they_can_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 of a round with 10 MB took seconds of the event loop."""
    written: list[int] = []

    def dumps(value: object, **options: Any) -> str:
        text = json.dumps(value, **options)
        written.append(len(text))
        return text

    monkeypatch.setattr(rounds_module, "json", SimpleNamespace(dumps=dumps))
    for n_chars, is_kept in ((100, True), (100_000, False)):
        form = {**FORM, "params": {**FORM["params"], "message": "q" * n_chars}}
        caller, forms = Keeps(), {str(number): form for number in range(15)}
        asked = Asking(McpServer(alias="low", command=["x"], elicits=True), caller)
        written.clear()
        await with_answers(Rounds(asks(inputRequests=forms), {"content": []}).send, asked)
        assert len(caller.n_chars) == 15
        assert [each > 0 for each in caller.n_chars] == [is_kept] * 15
        assert sum(length > 1_000_000 for length in written) == int(not is_kept)


async def test_a_server_that_only_wants_to_be_called_again_is_so_after_a_while() -> None:
    rounds = Rounds(
        asks(requestState="1"), asks(requestState="2"), asks(requestState="3"), {"content": []}
    )
    await with_answers(rounds.send, asking(), rounds.sleep)
    assert [sent.get("requestState") for sent in rounds.sent] == [None, "1", "2", "3"]
    assert rounds.slept == [0.05, 0.1, 0.2]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (asks(), "does not say for what"),
        (asks(inputRequests=[], requestState=5), "does not say for what"),
        (asks(inputRequests={"a": FORM}), "10 times"),
        (asks(requestState="again"), "10 times"),
        (asks(inputRequests={"a": {"method": "roots/list"}}), "the folders"),
        (asks(inputRequests={"a": "junk"}), "None"),
        (asks(inputRequests={"a": {"method": ["x"]}}), r"\['x'\]"),
        (asks(inputRequests={"a": {"method": "sampling/createMessage"}}), "answer of the model"),
        (asks(inputRequests={f"k{i}": FORM for i in range(21)}), "20 times"),
    ],
)
async def test_a_server_that_asks_for_too_much_is_refused_and_nothing_hangs(
    result: dict[str, Any], words: str
) -> None:
    rounds = Rounds(result)
    with pytest.raises(Refused, match=words):
        await with_answers(rounds.send, asking(elicits=True), rounds.sleep)
    assert len(rounds.sent) <= 11


@ERAS
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_log_lines_of_a_server_are_lines_of_its_logger(
    protocol: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("chatty")

    @server.tool()
    async def chat(context: Context[Any]) -> str:
        """Chat."""
        await context.log("info", {"a": [1]}, logger_name="part")
        await context.log("debug", "too low")
        return "chatted"

    caplog.set_level(logging.INFO, logger="agentkit.mcp.chatty")
    config = McpServer(alias="chatty", server=server, protocol=protocol)
    async with config.connect() as connection:
        output = await connection.call("chat", {})
    assert output.content == "chatted"
    lines = [r.getMessage() for r in caplog.records if r.name == "agentkit.mcp.chatty"]
    assert lines == ['[part] {"a": [1]}']


def test_a_log_line_is_short_printable_and_without_the_secrets_that_we_gave(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = {"A": "hunter2hunter2", "B": "true", "C": "hunter2"}
    log = ServerLog("loud", ServerSecrets(McpServer(alias="loud", command=["x"], env=env)).hidden)
    with caplog.at_level(logging.DEBUG, logger="agentkit.mcp.loud"):
        assert log.level == "debug"
        log.write("warning", None, "key hunter2hunter2, true\n\x1b[31mred \ud800")
        log.write("unheard of", "x", {"n": float("nan"), "t": "y" * 5000})
        log.write("emergency", None, None)
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first == "key ***, true  [31mred ?"
    assert second.startswith('[x] {"n": "NaN"')
    assert len(second) < 1100
    assert third == "null"
    assert [r.levelno for r in caplog.records] == [logging.WARNING, logging.INFO, logging.CRITICAL]


def test_a_server_that_logs_too_much_is_cut_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    with caplog.at_level(logging.INFO, logger="agentkit.mcp.loud"):
        log = ServerLog("loud", clock=lambda: now[0])
        for _ in range(1000):
            log.write("info", None, "x")
        assert len(caplog.records) == 100
        now[0] = 1.0
        log.write("info", None, "x")
    assert [r.getMessage() for r in caplog.records[100:]] == [
        "900 lines of the server were left out: it logs too much",
        "x",
    ]


def test_servers_are_asked_only_for_log_lines_that_somebody_hears() -> None:
    logging.getLogger("agentkit.mcp.quiet").setLevel(logging.ERROR)
    assert ServerLog("quiet").level == "error"
    logging.getLogger("agentkit.mcp.quiet").setLevel(logging.CRITICAL + 1)
    assert ServerLog("quiet").level == "critical"
