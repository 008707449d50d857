"""Running the calls of one turn."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset import ToolContext, ToolOutput, Toolset, execute, execute_calls, tool


@dataclass(frozen=True)
class Written:
    """A call as a model wrote it."""

    id: str
    name: str
    arguments: str = "{}"


@tool
async def echo(text: str = "") -> str:
    """Echo."""
    return text


@tool
def read_file(path: str) -> str:
    """Read."""
    return path


TOOLS = Toolset([echo, read_file])


def make_context(call: Written) -> ToolContext[None]:
    return ToolContext(deps=None, agent="tester", run_id="run-1", call_id=call.id)


async def run(*calls: Written, toolset: Toolset = TOOLS, **options: object) -> list[ToolOutput]:
    options = {"allowed": None, "context_factory": make_context} | options
    async with asyncio.timeout(20):
        return await execute_calls(toolset, calls, **options)  # type: ignore[arg-type]


async def test_results_come_in_call_order_whatever_finishes_first():
    first_may_end = asyncio.Event()

    @tool
    async def step(n: int) -> str:
        """Step."""
        if n == 0:
            await first_may_end.wait()
        else:
            first_may_end.set()
        return str(n)

    heard: list[int] = []
    outputs = await run(
        Written("a", "step", '{"n": 0}'),
        Written("b", "step", '{"n": 1}'),
        toolset=Toolset([step]),
        on_output=lambda index, output: heard.append(index),
    )
    assert [output.content for output in outputs] == ["0", "1"]
    assert heard == [1, 0]


async def test_no_more_than_max_parallel_calls_run_at_once():
    running = most = 0

    @tool
    async def work() -> None:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    calls = [Written(str(n), "work") for n in range(9)]
    await run(*calls, toolset=Toolset([work]), max_parallel=3)
    assert most == 3
    with pytest.raises(ValueError, match="max_parallel must be at least 1, not 0"):
        await run(*calls, max_parallel=0)


async def test_no_calls_give_no_results():
    assert await run() == []


async def test_an_unknown_tool_is_answered_with_the_nearest_names():
    (output,) = await run(Written("a", "readfile"))
    assert output.is_error
    assert output.content == (
        "There is no tool named 'readfile'. Did you mean 'read_file'? "
        "You may call: echo, read_file."
    )


async def test_a_masked_tool_is_answered_with_what_may_be_called():
    masked, fine = await run(
        Written("a", "echo"),
        Written("b", "read_file", '{"path": "x"}'),
        allowed=frozenset({"read_file"}),
    )
    assert masked.content == "The tool 'echo' may not be called now. You may call: read_file."
    assert (masked.is_error, fine.content) == (True, "x")
    (unknown,) = await run(Written("a", "ech"), allowed=frozenset())
    assert unknown.content.endswith("No tool may be called now; answer without one.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"text": "a",}', "no valid JSON: Expecting property name"),
        ('{"text"\n "a"}', 'at line 2, column 2, near \'{"text"\\n "a"}\''),
        ('["a"]', "must be a JSON object, but are: '[\"a\"]'"),
        ("null", "must be a JSON object"),
        ('{"text": NaN}', "NaN is not a JSON number"),
        ('{"text": "a", "text": "b"}', "the key 'text' is given more than once"),
        ('{"text": "\\ud83d"}', "lone surrogate"),
        ('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
async def test_arguments_that_are_no_json_object_are_answered_with_the_reason(arguments, words):
    (output,) = await run(Written("a", "echo", arguments))
    assert output.is_error
    assert words in output.content
    assert output.content.startswith("The arguments of 'echo' are not usable: ")


@pytest.mark.parametrize("arguments", ["", " \n", "{}"])
async def test_blank_arguments_mean_none(arguments):
    (output,) = await run(Written("a", "echo", arguments))
    assert output == ToolOutput(content="")


@given(st.text(max_size=30))
def test_no_argument_text_raises(text):
    (output,) = asyncio.run(run(Written("a", "echo", text)))
    try:
        good = isinstance(json.loads(text or "{}"), dict)
    except ValueError:
        good = not text.strip()
    assert output.is_error or good


async def test_a_tool_that_raises_in_spite_of_the_protocol_does_not_stop_the_others():
    class Rude:
        spec = echo.spec

        async def call(self, arguments, context):
            raise RuntimeError("boo")

    rude, fine = await run(
        Written("a", "echo"),
        Written("b", "read_file", '{"path": "x"}'),
        toolset=Toolset([Rude(), read_file]),
    )
    assert rude == ToolOutput.error("Tool 'echo' failed: RuntimeError: boo")
    assert fine.content == "x"


async def test_each_call_gets_its_own_context():
    @tool
    async def who(context: ToolContext[None]) -> str:
        """Who."""
        return context.call_id

    outputs = await run(Written("a", "who"), Written("b", "who"), toolset=Toolset([who]))
    assert [output.content for output in outputs] == ["a", "b"]


async def test_cancellation_stops_the_calls_and_still_answers_each_of_them():
    waiting, cleaned = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return ""

    heard: dict[int, ToolOutput] = {}
    first = asyncio.Event()

    def hear(index: int, output: ToolOutput) -> None:
        assert index not in heard
        heard[index] = output
        first.set()

    calls = (Written("a", "echo", '{"text": "done"}'), Written("b", "wait"), Written("c", "wait"))
    task = asyncio.create_task(
        run(*calls, toolset=Toolset([echo, wait]), on_output=hear, max_parallel=2)
    )
    await waiting.wait()
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()
    assert {index: output.is_error for index, output in heard.items()} == {
        0: False,
        1: True,
        2: True,
    }
    assert heard[2].content == "The call was cancelled; whether it had an effect is unknown."


async def test_a_call_that_will_not_be_cancelled_does_not_hold_up_the_cancellation(monkeypatch):
    monkeypatch.setattr(execute, "_CANCEL_GRACE_S", 0.05)
    waiting, release = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Stay."""
        waiting.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    heard: list[ToolOutput] = []
    task = asyncio.create_task(
        run(
            Written("a", "stubborn"),
            toolset=Toolset([stubborn]),
            on_output=lambda index, output: heard.append(output),
        )
    )
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [output.is_error for output in heard] == [True]


async def test_an_exception_of_a_foreign_tool_is_logged_with_its_call(caplog):
    class Foreign:
        spec = echo.spec

        async def call(self, arguments: object, context: object) -> ToolOutput:
            raise OSError("disk gone")

    [output] = await run(Written("c7", "echo"), toolset=Toolset([Foreign()]))

    assert output.content == "Tool 'echo' failed: OSError: disk gone"
    [record] = caplog.records
    assert record.getMessage() == "tool 'echo' of agent 'tester' failed in call 'c7'"
    assert "OSError: disk gone" in caplog.text
