"""Limits on time: what a run does is cut off, whatever it is; who reads its events never is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from agentkit import (
    Agent,
    Hooks,
    LimitReached,
    Limits,
    MemoryJournal,
    ModelError,
    RunStream,
    tool,
)
from agentkit.blocks import ToolMessage
from agentkit.events import RunEnd, SubagentEvent, TextDelta
from agentkit.models.base import ModelRequest
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.virtual_loop import VirtualLoop

HOUR_S = 3_600.0
T = TypeVar("T")


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Do some work in virtual time; no thread of it runs."""

    def new_loop() -> VirtualLoop:
        loop = VirtualLoop()
        loop.idle_threads = threading.active_count()
        return loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


class SlowModel(ScriptedModel):
    """Takes its time before each answer, and between two deltas."""

    def __init__(self, script: Any, *, first_s: float = 0.0, delta_s: float = 0.0) -> None:
        super().__init__(script)
        self.first_s = first_s
        self.delta_s = delta_s
        self.n_closed = 0

    async def stream(self, request: ModelRequest) -> Any:
        try:
            await asyncio.sleep(self.first_s)
            async for event in super().stream(request):
                await asyncio.sleep(self.delta_s)
                yield event
        finally:
            self.n_closed += 1


async def read(
    stream: RunStream[Any], *, seen: list[str] | None = None, pause_s: float = 0.0
) -> None:
    """Read all events, with a pause after each."""
    seen = [] if seen is None else seen
    async with stream as events:
        async for event in events:
            seen.append(event.kind)
            await asyncio.sleep(pause_s)
            seen.append("awake")


def ended_by(agent: Agent[Any, Any], **options: Any) -> tuple[LimitReached, float, RunStream[Any]]:
    """Run to the deadline; return the error, when it came, and the stream."""

    async def main() -> tuple[LimitReached, float, RunStream[Any]]:
        stream = agent.stream("Go.", **options)
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(LimitReached) as caught:
            await read(stream)
        took_s = asyncio.get_running_loop().time() - began_s
        assert len(asyncio.all_tasks()) == 1
        return caught.value, took_s, stream

    error, took_s, stream = run_virtually(main())
    assert error.limit == "seconds"
    assert error.partial is not None
    assert stream.context == error.partial.context
    assert not error.partial.context.open_calls
    return error, took_s, stream


@pytest.mark.parametrize("times", [{"first_s": HOUR_S}, {"delta_s": 7.0}])
def test_a_model_that_is_too_slow_is_not_listened_to_any_more(times: dict[str, float]) -> None:
    model = SlowModel(["A long answer, in many pieces."], **times)
    error, took_s, _ = ended_by(Agent(model=model, instructions="x", limits=Limits(seconds=20)))
    assert took_s == pytest.approx(20)
    assert model.n_closed == 1
    assert error.partial is not None
    assert [message.kind for message in error.partial.messages] == ["user"]
    assert len(error.partial.requests) == ("delta_s" in times)


def test_a_tool_that_is_too_slow_is_cancelled_and_its_call_says_so() -> None:
    cleaned: list[str] = []

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.sleep(HOUR_S)
        finally:
            cleaned.append("yes")
        return "never"

    @tool
    def quick() -> str:
        """Be quick."""
        return "done"

    model = ScriptedModel([[Call("wait"), Call("quick")]])
    agent = Agent(model=model, instructions="x", tools=[wait, quick])
    error, took_s, _ = ended_by(agent, limits=Limits(seconds=5))
    assert took_s == pytest.approx(5)
    assert cleaned == ["yes"]
    assert error.partial is not None
    last = error.partial.messages[-1]
    assert isinstance(last, ToolMessage)
    assert [result.is_error for result in last.results] == [True, False]
    assert last.results[1].content == "done"


def test_waiting_to_ask_again_ends_at_the_deadline_too() -> None:
    model = ScriptedModel([ModelError("busy", retryable=True, retry_after_s=200.0)])
    agent = Agent(model=model, instructions="x")
    _, took_s, _ = ended_by(agent, limits=Limits(seconds=30))
    assert took_s == pytest.approx(30)


def test_hooks_and_the_journal_are_cut_off_too() -> None:
    class Slow(Hooks):
        async def before_turn(self, at: Any) -> None:
            await asyncio.sleep(HOUR_S)

    agent = Agent(model=ScriptedModel([]), instructions="x", hooks=[Slow()])
    _, took_s, _ = ended_by(agent, limits=Limits(seconds=30), journal=MemoryJournal())
    assert took_s == pytest.approx(30)


def test_a_subagent_is_cut_off_by_the_deadline_of_the_run_above() -> None:
    model = SlowModel({"boss": [Call("delegate_to_slow", {"task": "x"})], "slow": ["y"]})
    slow = Agent(model=SlowModel(["y"], first_s=HOUR_S), name="slow", instructions="x")
    boss = Agent(model=model, name="boss", instructions="x", subagents=[slow])
    error, took_s, _ = ended_by(boss, limits=Limits(seconds=60))
    assert took_s == pytest.approx(60)
    assert error.partial is not None
    assert isinstance(error.partial.messages[-1], ToolMessage)


def test_a_subagents_own_deadline_is_a_result_for_the_run_above() -> None:
    script: dict[str, Any] = {"boss": [Call("delegate_to_slow", {"task": "x"}), "Then not."]}
    slow = Agent(
        model=SlowModel(["y"], first_s=HOUR_S),
        name="slow",
        instructions="x",
        limits=Limits(seconds=9),
    )
    boss = Agent(model=ScriptedModel(script), name="boss", instructions="x", subagents=[slow])
    result = run_virtually(boss.run("Go."))
    assert result.output == "Then not."
    (child,) = result.children
    assert child.kind == "failed"
    assert "seconds=9 is reached" in child.reason


def test_who_reads_the_events_is_not_cut_off_but_its_time_counts() -> None:
    model = SlowModel([Call("nothing"), "never asked"], first_s=1.0)
    agent = Agent(model=model, instructions="x")

    async def main() -> list[str]:
        seen: list[str] = []
        with pytest.raises(LimitReached, match="seconds=10"):
            await read(agent.stream("Go.", limits=Limits(seconds=10)), seen=seen, pause_s=30)
        return seen

    seen = run_virtually(main())
    assert seen
    assert seen.count("awake") * 2 == len(seen)


def test_who_is_slow_with_the_last_event_has_the_answer_all_the_same() -> None:
    agent = Agent(model=ScriptedModel(["Yes."]), instructions="x")

    async def main() -> str:
        async with agent.stream("Go.", limits=Limits(seconds=10)) as events:
            async for event in events:
                if isinstance(event, RunEnd):
                    await asyncio.sleep(30)
            return str(events.result.output)

    assert run_virtually(main()) == "Yes."


def test_a_run_that_is_cancelled_from_outside_is_cancelled_and_not_out_of_time() -> None:
    model = SlowModel(["y"], first_s=HOUR_S)
    agent = Agent(model=model, instructions="x")

    async def main() -> None:
        task = asyncio.create_task(agent.run("Go.", limits=Limits(seconds=60)))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.n_closed == 1

    run_virtually(main())


def test_the_time_before_a_failure_counts_after_the_resume() -> None:
    async def main() -> None:
        loop, journal = asyncio.get_running_loop(), MemoryJournal()
        model = SlowModel([ModelError("broken"), "y"])
        agent = Agent(model=model, instructions="x", journal=journal, limits=Limits(seconds=20))
        with pytest.raises(ModelError):
            await agent.run("Go.", run_id="r")
        (saved,) = await journal.load("r")
        await journal.save(replace(saved, total_s=12.0))
        model.first_s = HOUR_S
        with pytest.raises(LimitReached, match="seconds=20"):
            await agent.resume("r")
        assert loop.time() == pytest.approx(8)

    run_virtually(main())


def test_events_of_subagents_come_through_in_time() -> None:
    script: dict[str, Any] = {
        "boss": [Call("delegate_to_helper", {"task": "x"}), "End."],
        "helper": ["Helped."],
    }
    model = ScriptedModel(script)
    helper = Agent(model=model, name="helper", instructions="x")
    boss = Agent(model=model, name="boss", instructions="x", subagents=[helper])

    async def main() -> list[Any]:
        async with boss.stream("Go.", limits=Limits(seconds=10)) as events:
            return [event async for event in events]

    events = run_virtually(main())
    below = [each.event for each in events if isinstance(each, SubagentEvent)]
    assert "".join(each.text for each in below if isinstance(each, TextDelta)) == "Helped."
    assert isinstance(events[-1], RunEnd)
