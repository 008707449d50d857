"""`fan_out`: many tasks at once, failures are results, and siblings share the prefix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from agentkit import Agent, ConfigurationError, FanOut, ModelError, Task, ToolContext, fan_out, tool
from agentkit.blocks import ToolMessage
from agentkit.events import Event, ModelEvent, SubagentEvent
from agentkit.models import ModelRequest
from agentkit.team import Failed, Ok
from agentkit.testing import Call, ScriptedModel, UnexpectedCall, assert_prefix_stable


class Reader(Agent):
    """You read."""

    @tool
    def read(self, path: str) -> str:
        """Read."""
        return f"text of {path}"


class Judge(Agent):
    """You judge."""


def last_text(request: ModelRequest) -> str:
    return request.context.messages[0].blocks[0].text  # type: ignore[union-attr]


def prompt_back(request: ModelRequest) -> str:
    if "bad" in last_text(request):
        raise ModelError("the model is ill")
    return f"answer to {last_text(request)}"


class Boss(Agent):
    """You lead."""

    rules = "Be honest."
    subagents = (Reader, Judge)


async def test_results_are_in_the_order_of_the_tasks_and_failures_are_among_them() -> None:
    model = ScriptedModel(prompt_back)

    done = await fan_out(Boss(model=model), [(Reader, "a"), ("judge", "bad"), (Reader, "c")])

    assert isinstance(done, FanOut)
    first, second, third = done.outcomes
    assert isinstance(first, Ok)
    assert isinstance(third, Ok)
    assert (first.output, third.output) == ("answer to a", "answer to c")
    assert (first.task, third.path) == ("a", ("boss", "reader[1]"))
    assert isinstance(second, Failed)
    assert "ill" in str(second.error)
    assert done.ok == (first, third)
    assert done.failed == (second,)
    assert [row.label for row in done.cache.rows] == [
        "boss/reader[0]",
        "boss/judge",
        "boss/reader[1]",
    ]


async def test_labels_name_tasks_in_paths() -> None:
    done = await fan_out(
        Boss(model=ScriptedModel(prompt_back)),
        [Task(agent="reader", prompt="x", label="a.txt"), Task(agent="reader", prompt="y")],
    )

    assert [outcome.path for outcome in done.outcomes] == [("boss", "a.txt"), ("boss", "reader[1]")]


async def test_siblings_share_rules_and_tools_with_each_other_and_the_parent() -> None:
    model = ScriptedModel(prompt_back)
    boss = Boss(model=model)
    await boss.run("plan")
    await fan_out(boss, [(Reader, "a"), (Judge, "b"), (Reader, "c")])

    contexts = [call.request.context for call in model.calls]
    assert min(context.common_length(contexts[0]) for context in contexts) >= 2
    assert contexts[1].common_length(contexts[3]) == 3
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert_prefix_stable(model.calls)


async def test_at_most_max_parallel_tasks_run_at_once() -> None:
    running = 0
    most = 0

    async def work() -> str:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ""

    child = Agent(name="child", instructions="You work.", tools=[work])
    model = ScriptedModel(
        lambda request: Call("work") if len(request.context.messages) == 1 else "ok"
    )
    done = await fan_out(
        Agent(model=model, subagents=[child]), [(child, str(n)) for n in range(10)], max_parallel=3
    )

    assert len(done.ok) == 10
    assert most <= 3


class Gated:
    """A model whose answers begin only when the gate opens; knows how many wait."""

    label = "gated"

    def __init__(self, siblings_start_together: bool) -> None:
        self.siblings_start_together = siblings_start_together
        self.gate = asyncio.Event()
        self.asked: list[str] = []
        self.someone = asyncio.Event()
        self.script = ScriptedModel(prompt_back)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked.append(last_text(request))
        self.someone.set()
        await self.gate.wait()
        async for event in self.script.stream(request):
            yield event


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("together", "warm_first", "before"),
    [
        (True, None, ["a", "b", "c"]),
        (False, None, ["a"]),
        (True, True, ["a"]),
        (False, False, ["a", "b", "c"]),
    ],
)
async def test_the_first_task_warms_the_model_where_that_is_needed_or_wanted(
    together: bool, warm_first: bool | None, before: list[str]
) -> None:
    model = Gated(together)
    running = asyncio.create_task(
        fan_out(
            Boss(model=model),
            [(Reader, "a"), (Reader, "b"), (Judge, "c")],
            warm_first=warm_first,
        )
    )
    async with asyncio.timeout(30):
        await model.someone.wait()
        await settle()
        assert model.asked == before
        model.gate.set()
        done = await running

    assert len(done.ok) == 3
    assert model.asked == ["a", "b", "c"]


async def test_when_the_first_task_fails_the_others_still_run() -> None:
    model = Gated(siblings_start_together=False)
    model.gate.set()
    async with asyncio.timeout(30):
        done = await fan_out(Boss(model=model), [(Reader, "bad"), (Reader, "b")], max_parallel=1)

    assert [outcome.kind for outcome in done.outcomes] == ["failed", "ok"]


async def test_events_are_heard_with_their_paths() -> None:
    heard: list[Event] = []
    await fan_out(
        Boss(model=ScriptedModel(prompt_back)), [(Reader, "a"), (Judge, "b")], on_event=heard.append
    )

    assert {event.path for event in heard if isinstance(event, SubagentEvent)} == {
        ("boss", "reader"),
        ("boss", "judge"),
    }


class Planner(Boss):
    """You plan."""

    @tool
    async def read_all(self, paths: list[str], context: ToolContext[None]) -> list[str]:
        """Read many files."""
        done = await fan_out(self, [(Reader, path) for path in paths], within=context)
        return [str(outcome.output) for outcome in done.ok]


async def test_within_a_tool_events_usage_and_outcomes_belong_to_the_run() -> None:
    def script(request: ModelRequest) -> str | Call:
        if request.agent == "reader":
            return "text"
        if len(request.context.messages) == 1:
            return Call("read_all", {"paths": ["a", "b"]})
        return "done"

    events: list[Event] = []
    async with Planner(model=ScriptedModel(script)).stream("go") as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401

    result = stream.result
    assert isinstance(result.messages[2], ToolMessage)
    assert result.messages[2].results[0].content == '["text","text"]'
    assert len(result.children) == 2
    assert len(result.requests) == 4
    assert {event.path for event in events if isinstance(event, SubagentEvent)} == {
        ("planner", "reader[0]"),
        ("planner", "reader[1]"),
    }


class Backwards:
    """A model that answers the last of the readers `a`, `b` and `c` first."""

    label = "backwards"
    siblings_start_together = True

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.turns = {path: asyncio.Event() for path in "abc"}
        self.turns["c"].set()
        read_all = Call("read_all", {"paths": ["a", "b", "c"]})
        self.planner = ScriptedModel([read_all, "done"])
        self.reader = ScriptedModel(lambda _: "text")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if request.agent != "reader":
            async for event in self.planner.stream(request):
                yield event
            return
        path = last_text(request)
        async with asyncio.timeout(30):
            await self.turns[path].wait()
        async for event in self.reader.stream(request):
            yield event
        self.ended.append(path)
        if path != "a":
            self.turns[chr(ord(path) - 1)].set()


async def test_reports_are_in_the_order_of_the_tasks_whatever_ends_first() -> None:
    """Regression: two equal runs printed different tables."""
    model = Backwards()

    result = await Planner(model=model).run("go")

    assert model.ended == ["c", "b", "a"]
    labels = ["planner", "planner/reader[0]", "planner/reader[1]", "planner/reader[2]"]
    assert [row.label for row in result.cache.rows] == labels
    assert [row.requests for row in result.cache.rows] == [2, 1, 1, 1]
    assert result.timing.ttft_s == result.cache.rows[0].ttft_first_s


async def test_cancelling_cancels_all_tasks() -> None:
    model = Gated(siblings_start_together=True)
    running = asyncio.create_task(fan_out(Boss(model=model), [(Reader, "a"), (Judge, "b")]))
    async with asyncio.timeout(30):
        await model.someone.wait()
        running.cancel()
        await asyncio.wait([running])

    assert running.cancelled()


async def test_a_broken_assertion_of_a_test_double_is_no_outcome() -> None:
    with pytest.raises(UnexpectedCall):
        await fan_out(Boss(model=ScriptedModel(["only one"])), [(Reader, "a"), (Judge, "b")])


class Stranger(Agent):
    """You are not in the team."""


@pytest.mark.parametrize("agent", [Stranger, "stranger", Stranger(), Boss])
async def test_only_declared_subagents_get_tasks(agent: Agent | type[Agent] | str) -> None:
    model = ScriptedModel(["x"])

    with pytest.raises(ConfigurationError, match=r"no subagent of 'boss'.*'judge', 'reader'"):
        await fan_out(Boss(model=model), [("judge", "fine"), (agent, "x")])
    assert model.calls == ()


async def test_other_mistakes_are_named() -> None:
    boss = Boss(model=ScriptedModel(["x"]))
    foreign = ToolContext(deps=None, agent="boss", run_id="r", call_id="c")
    with pytest.raises(ConfigurationError, match="max_parallel must be at least 1, got 0"):
        await fan_out(boss, [], max_parallel=0)
    with pytest.raises(ConfigurationError, match="task for 'reader' is empty"):
        await fan_out(boss, [(Reader, " ")])
    with pytest.raises(ConfigurationError, match="within must be the ToolContext"):
        await fan_out(boss, [(Reader, "x")], within=foreign)
    two = Boss(model=ScriptedModel(["x"]), subagents=[Reader(name="r1"), Reader(name="r2")])
    with pytest.raises(ConfigurationError, match="names several subagents"):
        await fan_out(two, [(Reader, "x")])


async def test_no_tasks_are_no_outcomes() -> None:
    done = await fan_out(Boss(model=ScriptedModel([])), [])

    assert done.outcomes == ()
    assert done.cache.total.requests == 0


async def test_a_listener_that_raises_ends_all_tasks_with_its_error() -> None:
    waiting = asyncio.Event()
    cancelled: list[str] = []

    class Slow(Agent):
        """You wait."""

        @tool
        async def wait(self) -> str:
            """Wait."""
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append("wait")
            return "never"

    class Quick(Agent):
        """You answer when the other waits."""

        @tool
        async def look(self) -> str:
            """Look."""
            await waiting.wait()
            return "it waits"

    class Lead(Agent):
        """You lead."""

        subagents = (Slow, Quick)

    error = ValueError("the screen is full")

    def listen(event: Event) -> None:
        assert isinstance(event, SubagentEvent)
        if event.path == ("lead", "quick") and waiting.is_set():
            raise error

    def answer(request: ModelRequest) -> Call:
        return Call("wait" if request.agent == "slow" else "look")

    async with asyncio.timeout(20):
        with pytest.raises(ValueError, match="the screen is full") as caught:
            await fan_out(
                Lead(model=ScriptedModel(answer)), [(Slow, "a"), (Quick, "b")], on_event=listen
            )

    assert caught.value is error
    assert cancelled == ["wait"]
