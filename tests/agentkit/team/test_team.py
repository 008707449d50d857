"""Teams: one sorted superset of tools and one set of rules; what each may call is a mask."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from agentkit import Agent, ConfigurationError, TurnLimitReached, tool
from agentkit.context import SystemPart, SystemText
from agentkit.events import Event, RunEnd, SubagentEvent, TextDelta, TurnEnd
from agentkit.models import local
from agentkit.team import Failed, Ok, warm
from agentkit.testing import (
    Call,
    Say,
    ScriptedModel,
    UnexpectedCall,
    assert_extends,
    assert_prefix_stable,
)
from agentkit.toolset import ToolNameConflict
from tests.agentkit.tool_results import tool_results


class Reader(Agent):
    """You read files.

    You are careful."""

    @tool
    def read(self, path: str) -> str:
        """Read a file."""
        return f"text of {path}"


class Writer(Agent):
    """You write."""

    subagents = (Reader,)

    @tool
    def write(self, text: str) -> str:
        """Write."""
        return "written"


class Boss(Agent):
    """You lead."""

    rules = "Be honest."
    subagents = (Writer, Reader)

    @tool
    def decide(self) -> str:
        """Decide."""
        return "decided"


ALL_TOOLS = ("decide", "delegate_to_reader", "delegate_to_writer", "read", "write")


def delegate(name: str, task: str) -> Call:
    return Call(f"delegate_to_{name}", {"task": task})


async def test_parent_child_and_grandchild_show_the_same_tools_and_rules() -> None:
    model = ScriptedModel(
        {
            "boss": [delegate("writer", "write a.txt"), "all done"],
            "writer": [delegate("reader", "read a.txt"), Call("write", {"text": "t"}), "wrote"],
            "reader": [Call("read", {"path": "a.txt"}), "it says: text"],
        }
    )

    result = await Boss(model=model).run("go")

    assert result.output == "all done"
    requests = [call.request for call in model.calls]
    assert {request.toolset.names for request in requests} == {ALL_TOOLS}
    assert len({request.toolset.bytes for request in requests}) == 1
    masks = {request.agent: request.allowed_tools for request in requests}
    assert masks == {
        "boss": frozenset({"decide", "delegate_to_reader", "delegate_to_writer"}),
        "writer": frozenset({"write", "delegate_to_reader"}),
        "reader": frozenset({"read"}),
    }
    assert_prefix_stable(model.calls)
    model.assert_consumed()


async def test_every_agent_of_a_team_starts_with_the_same_rules_and_tools_on_the_wire() -> None:
    """In the wild subagents share nothing with their parent (C53)."""
    model = ScriptedModel({"boss": [delegate("writer", "x"), "done"], "writer": ["ok"]})
    await Boss(model=model).run("go")

    first_lines = {local.wire(call.request).split(b"\n")[0] for call in model.calls}
    assert len(first_lines) == 1
    contexts = [call.request.context for call in model.calls]
    assert {context.common_length(contexts[0]) for context in contexts[1:2]} == {2}
    second = contexts[1].segments[2].content
    assert second == SystemText(SystemPart.ROLE, "You write.")


async def test_the_childs_first_request_reads_the_parents_prefix() -> None:
    model = ScriptedModel({"boss": [delegate("writer", "x"), "done"], "writer": ["ok"]})
    result = await Boss(model=model).run("go")

    rows = {row.label: row for row in result.cache.rows}
    assert set(rows) == {"boss", "boss/writer"}
    assert (rows["boss/writer"].usage.hit_ratio or 0) > 0.8


async def test_usage_of_children_is_part_of_their_parents_totals() -> None:
    model = ScriptedModel(
        {
            "boss": [delegate("writer", "x"), "done"],
            "writer": [delegate("reader", "y"), "ok"],
            "reader": ["r"],
        }
    )
    result = await Boss(model=model).run("go")

    (writer,) = result.children
    assert isinstance(writer, Ok)
    (reader,) = writer.result.children
    assert isinstance(reader, Ok)
    assert (writer.path, reader.path) == (("boss", "writer"), ("boss", "writer", "reader"))
    assert (len(result.requests), len(writer.result.requests)) == (5, 3)
    own = [r.usage.input_tokens or 0 for r in result.requests if r.path == ("boss",)]
    assert result.usage.input_tokens == sum(own) + (writer.result.usage.input_tokens or 0)


async def test_a_foreign_tool_is_refused_with_what_may_be_called() -> None:
    model = ScriptedModel({"boss": [Call("read", {"path": "x"}), "done"]})
    result = await Boss(model=model).run("go")

    (refused,) = tool_results(result)
    assert refused.is_error
    assert "may not be called now" in refused.content
    assert "decide" in refused.content


async def test_under_a_shared_name_each_agents_own_tool_answers() -> None:
    class Named(Agent):
        """You have a name."""

        @tool
        def who(self) -> str:
            """Who?"""
            return self.name

    twins = [Named(name="a"), Named(name="b")]
    model = ScriptedModel(
        {
            "boss": [[delegate("a", "x"), delegate("b", "x")], "done"],
            "a": [Call("who"), "1"],
            "b": [Call("who"), "2"],
        }
    )
    result = await Named(model=model, name="boss", subagents=twins).run("go")

    records = [child.result for child in result.children if isinstance(child, Ok)]
    answers = {record.path[-1]: tool_results(record)[0].content for record in records}
    assert answers == {"a": "a", "b": "b"}


async def test_parallel_delegations_run_at_the_same_time_and_may_have_one_path() -> None:
    meeting = asyncio.Barrier(2)

    async def meet() -> str:
        """Meet."""
        async with asyncio.timeout(30):
            await meeting.wait()
        return "met"

    child = Agent(name="child", instructions="You work.", tools=[meet])
    model = ScriptedModel(
        {
            "agent": [[delegate("child", "1"), delegate("child", "2")], "done"],
            "child": [Call("meet"), Call("meet"), "a", "a"],
        }
    )
    result = await Agent(model=model, subagents=[child]).run("go")

    assert [r.content for r in tool_results(result)] == ["a", "a"]
    assert result.cache.rows[1].requests == 4


async def test_events_of_subagents_come_live_and_flat_with_their_path() -> None:
    model = ScriptedModel(
        {
            "boss": [delegate("writer", "x"), "done"],
            "writer": [delegate("reader", "y"), "ok"],
            "reader": ["hello"],
        }
    )
    events: list[Event] = []
    async with Boss(model=model).stream("go") as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401

    below = [event for event in events if isinstance(event, SubagentEvent)]
    said = {event.path: event.event for event in below if isinstance(event.event, TextDelta)}
    assert said == {
        ("boss", "writer", "reader"): TextDelta("hello"),
        ("boss", "writer"): TextDelta("ok"),
    }
    ends = [event.path for event in below if isinstance(event.event, RunEnd)]
    assert ends == [("boss", "writer", "reader"), ("boss", "writer")]
    assert len({event.run_id for event in below}) == 2
    first_turn = next(i for i, event in enumerate(events) if isinstance(event, TurnEnd))
    assert isinstance(events[first_turn + 1], SubagentEvent)


async def test_a_failing_child_is_an_error_result_for_the_parent() -> None:
    model = ScriptedModel(
        {
            "boss": [delegate("reader", "x"), "done without"],
            "reader": [Call("read", {"path": "1"}), Call("read", {"path": "2"})],
        }
    )
    boss = Boss(model=model, subagents=[Reader(max_turns=2)])
    result = await boss.run("go")

    assert result.output == "done without"
    (failed,) = result.children
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, TurnLimitReached)
    assert len(failed.record.requests) == 2
    assert len(result.requests) == 4
    assert "TurnLimitReached" in tool_results(result)[0].content


async def test_a_broken_assertion_of_a_test_double_below_ends_the_whole_run() -> None:
    """Otherwise a test would pass although its script does not fit."""
    model = ScriptedModel({"boss": [delegate("reader", "x"), "never"], "reader": []})

    with pytest.raises(UnexpectedCall, match="by agent 'reader'"):
        await Boss(model=model).run("go")


@pytest.mark.parametrize("arguments", ["{}", '{"task": " "}', '{"task": 3}', '{"task":"x","y":1}'])
async def test_a_delegation_without_a_task_is_told_so(arguments: str) -> None:
    model = ScriptedModel({"boss": [Call("delegate_to_reader", arguments), "done"]})
    result = await Boss(model=model).run("go")

    assert tool_results(result)[0].is_error
    assert '"task"' in tool_results(result)[0].content
    assert result.children == ()


async def test_structured_answers_of_children_reach_the_parent_as_json() -> None:
    child = Agent(name="child", instructions="You work.", output_type=dict[str, list[float]])
    model = ScriptedModel({"agent": [delegate("child", "x"), "done"], "child": ['{"é": [1.5]}']})
    result = await Agent(model=model, subagents=[child]).run("go")

    assert tool_results(result)[0].content == '{"é":[1.5]}'
    assert isinstance(result.children[0], Ok)
    assert result.children[0].output == {"é": [1.5]}


async def test_cancelling_the_parent_cancels_its_children_and_keeps_what_they_cost() -> None:
    hanging = asyncio.Event()

    async def hang() -> str:
        """Hang."""
        hanging.set()
        await asyncio.Event().wait()
        return ""

    child = Agent(name="child", instructions="You work.", tools=[hang])
    model = ScriptedModel({"agent": [delegate("child", "x")], "child": [Call("hang")]})
    stream = Agent(model=model, subagents=[child]).stream("go")

    async def consume() -> None:
        async with stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(consume())
    async with asyncio.timeout(30):
        await hanging.wait()
    task.cancel()
    await asyncio.wait([task], timeout=10)

    record = stream.record
    assert record is not None
    assert len(record.requests) == 2
    (failed,) = record.children
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, asyncio.CancelledError)
    assert failed.record.context.open_calls == ()
    assert tool_results(record)[0].is_error


async def test_classes_get_their_parents_deps_and_instances_keep_their_own() -> None:
    seen: dict[str, object] = {}

    class Child(Agent[str]):
        """You look."""

        @tool
        def look(self) -> str:
            """Look."""
            seen[self.name] = self.deps
            return ""

    class Other(Child):
        """You look too."""

    boss: Agent[str] = Agent(
        model=ScriptedModel(
            {
                "agent": [[delegate("child", "x"), delegate("other", "x")], "done"] * 2,
                "child": [Call("look"), "ok"] * 2,
                "other": [Call("look"), "ok"] * 2,
            }
        ),
        deps="ours",
        subagents=[Child, Other(deps="its own")],
    )
    await boss.run("go")
    assert seen == {"child": "ours", "other": "its own"}

    boss.deps = "new"
    await boss.run("go")
    assert seen == {"child": "new", "other": "its own"}


async def test_children_may_have_models_of_their_own() -> None:
    theirs = ScriptedModel(["from theirs"], label="theirs")
    ours = ScriptedModel([delegate("child", "x"), "done"], label="ours")
    result = await Agent(
        model=ours, subagents=[Agent(name="child", instructions="You work.", model=theirs)]
    ).run("go")

    assert {request.model for request in result.requests} == {"ours", "theirs"}
    theirs.assert_consumed()


def _another(path: int) -> str:
    """Read something else."""
    return ""


class Loop(Agent):
    """You never end."""


Loop.subagents = (Loop,)
INSTANCE = Agent(name="self")
INSTANCE.subagents = (INSTANCE,)
MISTAKES: list[tuple[Callable[[], Agent], type[Exception], str]] = [
    (lambda: Boss(subagents=[Reader(), Reader()]), ConfigurationError, "two subagents named 'rea"),
    (lambda: Boss(subagents=[Loop]), ConfigurationError, "boss -> loop -> loop"),
    (lambda: INSTANCE, ConfigurationError, "self -> self"),
    (
        lambda: Boss(subagents=[Reader(rules="Other.")]),
        ConfigurationError,
        r"'reader' has rules of its own.*'boss'",
    ),
    (
        lambda: Boss(subagents=[Reader], tools=[tool(name="read")(_another)]),
        ToolNameConflict,
        "two different tools are named 'read'",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), MISTAKES)
async def test_teams_that_do_not_fit_together_are_refused(
    make: Callable[[], Agent], error: type[Exception], message: str
) -> None:
    agent = make()
    agent.model = ScriptedModel(["x"])

    with pytest.raises(error, match=message):
        await agent.run("x")


async def test_the_same_rules_may_be_written_down_again() -> None:
    model = ScriptedModel(["x"])
    assert (await Boss(model=model, subagents=[Reader(rules="Be honest.")]).run("x")).output == "x"


async def test_a_childs_conversation_extends_itself_turn_by_turn() -> None:
    model = ScriptedModel(
        {
            "boss": [[Say("!"), delegate("reader", "x")], "done"],
            "reader": [Call("read", {"path": str(n)}) for n in range(4)] + ["ok"],
        }
    )
    await Boss(model=model).run("go")

    wires = [local.wire(call.request) for call in model.calls_of("reader")]
    for earlier, later in itertools.pairwise(wires):
        assert_extends(earlier, later)
        assert len(later) > len(earlier)


async def test_a_model_that_cannot_be_warmed_is_asked_nothing() -> None:
    model = ScriptedModel({})

    assert await warm(Boss(model=model)) == {}
    assert not model.calls


@pytest.mark.parametrize("keep_s", [0.0, -1.0, float("inf"), float("nan")])
async def test_a_front_is_kept_for_a_time(keep_s: float) -> None:
    with pytest.raises(ConfigurationError, match="keep_s must be seconds"):
        await warm(Boss(model=ScriptedModel({})), keep_s=keep_s)
