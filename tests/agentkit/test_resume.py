"""Going on with a run: from a pause, a failure, a cancellation or a journal that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    Context,
    ContextMismatch,
    JournalError,
    LimitReached,
    Limits,
    MemoryJournal,
    ModelError,
    OutputError,
    PausedRun,
    ToolContext,
    fan_out,
    tool,
)
from agentkit.events import RunEnd, RunPaused, RunStarted, SubagentEvent
from agentkit.result import Failed
from agentkit.saved import SavedRun
from agentkit.testing import Call, ScriptedModel, Step, assert_prefix_stable
from tests.agentkit.clerks import Log, results_of
from tests.agentkit.lost_runs import RUN_ID, LosingJournal, World, busy, carried_out, story


def clerk(model: Any, journal: Any = None, **more: Any) -> Agent[Any, Any]:
    given = {"instructions": "You are a clerk.", **more}
    return Agent(model=model, name="clerk", journal=journal, **given)


async def one(journal: MemoryJournal) -> SavedRun:
    (saved,) = await journal.load(RUN_ID)
    return saved


async def test_a_run_that_is_done_gives_its_result_again_and_asks_nothing() -> None:
    journal, model = MemoryJournal(), ScriptedModel(["[1, 2]"])
    first = await clerk(model, journal, output_type=list[int]).run("Go.", run_id=RUN_ID)
    again = await clerk(model, journal, output_type=list[int]).resume(RUN_ID)
    assert again.output == first.output == [1, 2]
    assert (again.context, again.requests) == (first.context, first.requests)
    assert len(model.calls) == 1


async def test_a_run_whose_model_failed_is_asked_the_same_again() -> None:
    journal, log = MemoryJournal(), Log()
    model = ScriptedModel([Call("look"), ModelError("down"), "Done."])
    with pytest.raises(ModelError):
        await clerk(model, journal, tools=log.tools).run("Go.", run_id=RUN_ID)
    saved = await one(journal)
    assert saved.status == "failed"
    assert saved.end is not None
    assert saved.end.error == "ModelError: down"
    result = await clerk(model, journal, tools=log.tools).resume(RUN_ID)
    assert result.output == "Done."
    assert log.done == ["look"]
    assert model.calls[1].wire == model.calls[2].wire
    assert len(result.requests) == 3


async def test_a_run_whose_answers_never_fitted_is_asked_again_before_the_last_of_them() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(["one", "two", "3"])
    made: dict[str, Any] = {"output_type": int, "max_repairs": 1}
    with pytest.raises(OutputError) as caught:
        await clerk(model, journal, **made).run("Go.", run_id=RUN_ID)
    assert caught.value.partial is not None
    assert caught.value.partial.messages[-1].text == "two"  # type: ignore[union-attr]
    result = await clerk(model, journal, **made).resume(RUN_ID)
    assert result.output == 3
    assert model.calls[1].wire == model.calls[2].wire


async def test_calls_that_a_limit_kept_from_running_run_under_a_higher_one() -> None:
    journal, log = MemoryJournal(), Log()
    model = ScriptedModel([[Call("look"), Call("look")], "Done."])
    agent = clerk(model, journal, tools=log.tools)
    with pytest.raises(LimitReached):
        await agent.run("Go.", run_id=RUN_ID, limits=Limits(tool_calls=1))
    assert log.done == []
    result = await agent.resume(RUN_ID, limits=Limits(tool_calls=2))
    assert log.done == ["look", "look"]
    assert results_of(result) == [["seen", "seen"]]


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ({"instructions": "You are a thief."}, ContextMismatch, "system/role|role"),
        ({"name": "thief"}, ContextMismatch, "was begun by agent 'clerk', not by 'thief'"),
    ],
)
async def test_another_agent_does_not_go_on_with_a_run(
    change: dict[str, Any], error: type[Exception], problem: str
) -> None:
    journal = MemoryJournal()
    with pytest.raises(ModelError):
        await clerk(ScriptedModel([ModelError("down")]), journal).run("Go.", run_id=RUN_ID)
    other: Agent[Any, Any] = Agent(
        model=ScriptedModel(["x"]),
        journal=journal,
        **{"name": "clerk", "instructions": "You are a clerk.", **change},
    )
    with pytest.raises(error, match=problem):
        await other.resume(RUN_ID)


@pytest.mark.parametrize(
    ("resumed", "error", "problem"),
    [
        ("nobody", JournalError, "there is no run 'nobody'"),
        (3, ConfigurationError, "resume takes a PausedRun"),
    ],
)
async def test_what_is_no_run_is_told(resumed: Any, error: Any, problem: str) -> None:
    with pytest.raises(error, match=problem):
        await clerk(ScriptedModel([]), MemoryJournal()).resume(resumed)


async def test_an_id_needs_a_journal() -> None:
    with pytest.raises(ConfigurationError, match="only known by its journal"):
        await clerk(ScriptedModel([])).resume(RUN_ID)


async def test_a_run_below_is_resumed_by_way_of_the_root() -> None:
    world = World(busy("again"))
    await carried_out(world, [], one_at_a_time=False)
    below = (await world.kept.load(RUN_ID))[1]
    agent = world.team(LosingJournal(world.kept, None, after=False))
    with pytest.raises(ConfigurationError, match=f"is a part of run '{RUN_ID}': resume that one"):
        await agent.resume(below.run_id)


async def test_an_id_is_given_to_one_run() -> None:
    journal = MemoryJournal()
    await clerk(ScriptedModel(["Done."]), journal).run("Go.", run_id=RUN_ID)
    with pytest.raises(JournalError, match=f"there is a run '{RUN_ID}' already"):
        await clerk(ScriptedModel([]), journal).run("Go.", run_id=RUN_ID)


async def test_results_are_kept_as_they_come_and_not_with_their_siblings() -> None:
    journal, has_begun = MemoryJournal(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Never come back."""
        has_begun.set()
        await asyncio.Event().wait()
        return "never"

    @tool
    async def quick() -> str:
        """Come back after the other has begun."""
        await has_begun.wait()
        return "quick"

    agent = clerk(ScriptedModel([[Call("hang"), Call("quick")]]), journal, tools=[hang, quick])
    task = asyncio.create_task(agent.run("Go.", run_id=RUN_ID))
    await has_begun.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    saved = await one(journal)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert saved.open_turn is not None
    assert [each.content for each in saved.open_turn.results.values()] == ["quick"]
    assert len(saved.open_turn.started) == 2


# A journal that fails.


async def test_a_journal_that_fails_once_ends_the_run_with_a_valid_context_at_any_save() -> None:
    calm = World(busy("again"))
    expected, n_saves = await carried_out(calm, [], one_at_a_time=False)
    for fails_at in range(1, n_saves + 1, 3):
        world = World(busy("again"))
        journal = _FailsOnce(world.kept, fails_at)
        stream = world.team(journal).stream("0", run_id=RUN_ID)
        with pytest.raises(JournalError, match="disk full"):
            async for _ in stream:
                pass
        kept = await world.kept.load(RUN_ID)
        assert [run.status for run in kept[:1]] in ([], ["running"])
        assert stream.record is not None
        _check_valid(stream.record.context)
        assert not any("disk full" in text for turn in results_of(stream.record) for text in turn)
        result, _ = await carried_out(world, [], one_at_a_time=False)
        assert result.output == expected.output


class _FailsOnce(LosingJournal):
    """Fails at one save, and would keep all that follow."""

    def __init__(self, kept: MemoryJournal, fails_at: int) -> None:
        super().__init__(kept, None, after=False)
        self._fails_at = fails_at

    async def save(self, run: SavedRun) -> None:
        """Keep the run, or fail."""
        if self.n_saves + 1 == self._fails_at:
            self.n_saves += 1
            raise JournalError("disk full")
        await super().save(run)


# Cancellation.


async def test_a_run_that_is_cancelled_at_any_step_has_a_valid_context_and_goes_on() -> None:
    calm = World(busy("again"))
    expected, _ = await carried_out(calm, [], one_at_a_time=False)
    for n_steps in range(1, 400, 7):
        world = World(busy("again"))
        journal = LosingJournal(world.kept, None, after=False)
        stream = world.team(journal).stream("0", run_id=RUN_ID)
        task = asyncio.create_task(_all(stream))
        for _ in range(n_steps):
            await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if stream.record is not None:
            _check_valid(stream.record.context)
        kept = await world.kept.load(RUN_ID)
        assert not kept or kept[0].status == "cancelled"
        result, _ = await carried_out(world, [], one_at_a_time=False)
        assert result.output == expected.output
        _check_valid(result.context)
        assert all(count == 1 for key, count in world.ran.items() if "once" in key)
    else:
        pytest.fail("the run never ended by itself")


async def test_leaving_a_stream_early_keeps_where_it_was() -> None:
    journal, log = MemoryJournal(), Log()
    model = ScriptedModel([Call("look"), "A long answer.", "Done."])
    agent = clerk(model, journal, tools=log.tools)
    async with agent.stream("Go.", run_id=RUN_ID) as events:
        async for event in events:
            if event.kind == "text_delta":
                break
    saved = await one(journal)
    assert saved.status == "cancelled"
    assert len(saved.requests) == 2  # the one that was cut off too
    result = await agent.resume(RUN_ID)
    assert result.output == "Done."
    assert log.done == ["look"]
    assert len(result.requests) == 3


# Sessions.


async def test_a_session_goes_on_with_its_last_run_and_says_which_agents() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(["One.", "Two.", "Other."])
    agent = clerk(model, journal)
    first = await agent.run("First.", session="s")
    second = await clerk(model, journal).run("Second.", session="s")
    assert second.context.starts_with(first.context)
    assert second.run_id != first.run_id
    assert len(second.messages) == 2
    other = await agent.run("Other.", session="t")
    assert len(other.context.messages) == 2
    assert {call.request.session for call in model.calls} == {"s", "t"}


async def test_without_a_journal_a_session_is_a_name_only() -> None:
    agent = clerk(ScriptedModel(["One.", "Two."]))
    await agent.run("First.", session="s")
    second = await agent.run("Second.", session="s")
    assert len(second.context.messages) == 2


async def test_a_session_whose_run_waits_is_not_gone_on_with() -> None:
    journal = MemoryJournal()
    agent = clerk(ScriptedModel([Call("pay", {"to": "Ada", "eur": 1})]), journal, tools=Log().tools)
    paused = await _paused(agent, session="s")
    with pytest.raises(
        JournalError, match=f"first resume it with await agent.resume\\('{paused.run_id}"
    ):
        await agent.run("Second.", session="s")


async def test_a_session_goes_on_after_a_run_that_was_left_while_a_call_ran() -> None:
    journal, log = MemoryJournal(), Log()
    log.hang = True

    class Trusting(Agent[None, str]):
        async def approve(self, call: Any, context: Any) -> Approve:
            return Approve()

    model = ScriptedModel([Call("pay", {"to": "Ada", "eur": 1}), "I was cut off."])
    agent = Trusting(model=model, journal=journal, tools=log.tools)
    task = asyncio.create_task(agent.run("Pay.", session="s"))
    await log.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    second = await agent.run("What happened?", session="s")
    _check_valid(second.context)
    told = second.context.messages[2].results[0].content  # type: ignore[union-attr]
    assert "cancelled before it had a result" in told
    assert_prefix_stable(model.calls)


# Pauses between turns.


async def test_a_pause_waits_for_the_calls_of_the_turn_those_of_subagents_too() -> None:
    world = World(busy("again"))
    journal = LosingJournal(world.kept, None, after=False)
    stream = world.team(journal).stream("0", run_id=RUN_ID)
    kinds = []
    async for event in stream:
        if isinstance(event, SubagentEvent):
            stream.pause()
        kinds.append(event.kind)
    paused = stream.paused
    assert paused is not None
    assert kinds[-1] == "run_paused"
    assert paused.pending == ()
    assert paused.runs[0].turn == 1
    assert paused.runs[0].open_turn is None
    assert {run.status for run in paused.runs[1:]} == {"done"}
    result, _ = await carried_out(world, [], one_at_a_time=False)
    calm = World(busy("again"))
    expected, _ = await carried_out(calm, [], one_at_a_time=False)
    assert story(result) == story(expected)


async def test_a_pause_without_a_journal_is_gone_on_with_by_its_value() -> None:
    log = Log()
    model = ScriptedModel([Call("look"), "Done."])
    agent = clerk(model, tools=log.tools)
    stream = agent.stream("Go.")
    async for event in stream:
        if event.kind == "tool_result_event":
            stream.pause()
    assert stream.paused is not None
    paused = PausedRun.from_json(stream.paused.to_json())
    result = await agent.resume(paused)
    assert result.output == "Done."
    assert result.run_id == paused.run_id
    assert log.done == ["look"]
    assert_prefix_stable(model.calls)


# Runs below that do not go on.


async def test_a_run_below_that_its_tool_gave_up_is_a_failure_also_after_a_pause() -> None:
    journal, log = MemoryJournal(), Log()
    has_begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Never come back."""
        has_begun.set()
        await asyncio.Event().wait()
        return "never"

    @tool
    async def try_it(context: ToolContext[None]) -> str:
        """Let a helper try, and give up."""
        trial = asyncio.create_task(fan_out(agents[0], [("helper", "Try.")], within=context))
        await has_begun.wait()
        trial.cancel()
        await asyncio.wait([trial])
        return "gave up"

    model = ScriptedModel(
        {
            "clerk": [Call("try_it"), Call("pay", {"to": "Ada", "eur": 1}), "Done."],
            "helper": [Call("hang")],
        }
    )

    def made() -> Agent[Any, Any]:
        helper: Agent[Any, Any] = Agent(name="helper", instructions="You help.", tools=[hang])
        agents[:] = [clerk(model, journal, tools=[*log.tools, try_it], subagents=[helper])]
        return agents[0]

    agents: list[Agent[Any, Any]] = []
    paused = await _paused(made())
    assert [run.status for run in await journal.load(RUN_ID)] == ["paused", "failed"]
    result = await made().resume(RUN_ID, {paused.pending[0].id: Approve()})
    assert results_of(result)[0] == ["gave up"]
    (child,) = result.children
    assert isinstance(child, Failed)
    assert child.reason == "CancelledError: "
    model.assert_consumed()


async def test_a_run_below_whose_agent_has_changed_begins_anew_under_another_id() -> None:
    journal, log = MemoryJournal(), Log()
    call = Call("pay", {"to": "Ada", "eur": 1})
    model = ScriptedModel(
        {
            "clerk": [Call("delegate_to_helper", {"task": "Pay."}), "Done."],
            "helper": [call, call, "Paid."],
        }
    )

    def made(examples: str) -> Agent[Any, Any]:
        helper: Agent[Any, Any] = Agent(
            name="helper", instructions="You help.", examples=examples, tools=log.tools
        )
        return clerk(model, journal, subagents=[helper])

    first = (await _paused(made("Pay at once."))).pending[0]
    with pytest.raises(ApprovalRequired) as caught:
        await made("Pay slowly.").resume(RUN_ID, {first.id: Approve()})
    assert log.done == []  # what was agreed to was the other's call
    (second,) = caught.value.paused.pending
    assert second.run_id != first.run_id
    result = await made("Pay slowly.").resume(RUN_ID, {second.id: Approve()})
    assert log.done == ["pay Ada 1"]
    assert results_of(result) == [["Paid."]]
    model.assert_consumed()


# All ways to run are one.


@pytest.mark.parametrize("script", [["Done."], [Call("look"), "Done."], [ModelError("down")]])
def test_run_and_run_sync_and_stream_do_the_same(script: list[Step]) -> None:
    def made() -> Agent[Any, Any]:
        return clerk(ScriptedModel(list(script)), tools=Log().tools)

    given: Any = {"session": "s", "user": "u", "run_id": RUN_ID, "limits": Limits(turns=9)}
    ways: list[Callable[[], Any]] = [
        lambda: asyncio.run(made().run("Go.", **given)),
        lambda: made().run_sync("Go.", **given),
        lambda: asyncio.run(_result_of_stream(made(), given)),
    ]
    told = [_outcome(way) for way in ways]
    assert told[0] == told[1] == told[2]


async def test_events_begin_with_the_start_and_end_with_the_end_also_when_it_was_done() -> None:
    journal = MemoryJournal()
    agent = clerk(ScriptedModel(["Done."]), journal)
    first = await _all(agent.stream("Go.", run_id=RUN_ID))
    again = await _all(agent.resume_stream(RUN_ID))
    for events in (first, again):
        assert events[0] == RunStarted(run_id=RUN_ID, agent="clerk")
        assert isinstance(events[-1], RunEnd)
    assert len(again) == 2


def _outcome(way: Callable[[], Any]) -> Any:
    try:
        return story(way())
    except ModelError as error:
        return str(error), error.partial and story(error.partial)


async def _result_of_stream(agent: Agent[Any, Any], given: Any) -> Any:
    stream = agent.stream("Go.", **given)
    await _all(stream)
    return stream.result


async def _all(stream: Any) -> list[Any]:
    return [event async for event in stream]


async def _paused(agent: Agent[Any, Any], **options: Any) -> PausedRun:
    stream = agent.stream("Go.", **{"run_id": RUN_ID, **options})
    events = await _all(stream)
    assert isinstance(events[-1], RunPaused)
    assert stream.paused is not None
    return stream.paused


def _check_valid(context: Context) -> None:
    assert context.open_calls == ()
    assert Context.load(context.dump()) == context
