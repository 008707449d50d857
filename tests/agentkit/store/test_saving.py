"""What is saved comes back; a save writes only what is new."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.blocks import AssistantMessage, ToolCall, ToolResult, UserMessage
from agentkit.saved import SavedRun, SavedTurn
from agentkit.store import SqlJournal, open_journal
from agentkit.store.schema import chain, kept, segments, steps
from tests.agentkit import saved_runs
from tests.agentkit.store.counts import n_rows, texts_of
from tests.agentkit.store.made import after_turn, begun, below

_FIXED = ("run_id", "parent", "call_id", "session", "agent", "began_at")


@st.composite
def histories(draw: st.DrawFn) -> list[SavedRun]:
    """A run after each of its steps: in each, some fields become any other values."""
    history = [replace(draw(saved_runs.runs), parent=None)]
    free = [item.name for item in fields(SavedRun) if item.name not in _FIXED]
    for _ in range(draw(st.integers(0, 4))):
        other, now = draw(saved_runs.runs), history[-1]
        changed = draw(st.sets(st.sampled_from(free)))
        values = {name: getattr(other, name) for name in changed}
        if draw(st.booleans()):
            values["requests"] = now.requests + other.requests
        if draw(st.booleans()) and now.open_turn is not None and now.open_turn.message.calls:
            values["open_turn"] = draw(_other(now.open_turn))
        history.append(replace(now, **values))
    return history


@st.composite
def _other(draw: st.DrawFn, turn: SavedTurn) -> SavedTurn:
    if draw(st.booleans()):
        return replace(turn, results={}, started=frozenset())  # the step before is kept again
    call = draw(st.sampled_from(turn.message.calls))
    results = {call.id: draw(saved_runs.result_of(call)), **turn.results}
    return replace(turn, started=turn.started | {call.id}, results=results)


def test_a_run_comes_back_as_it_was_after_each_step() -> None:
    names = map("run {}".format, itertools.count())
    with open_journal("sqlite://") as journal:

        @given(histories())
        @settings(max_examples=25)
        def check(history: list[SavedRun]) -> None:
            asyncio.run(_check(journal, history, next(names)))

        check()


async def _check(journal: SqlJournal, history: list[SavedRun], name: str) -> None:
    for step in history:
        run = replace(step, run_id=name, session=name)
        before = await journal.load(name)
        if before and run.requests[: len(before[0].requests)] != before[0].requests:
            # The loop never takes requests back, and a journal does not let it.
            run = replace(run, requests=before[0].requests)
        await journal.save(run)
        assert await journal.load(name) == (run,)


async def test_another_process_reads_what_this_one_has_saved(url: str) -> None:
    run = after_turn(begun())
    with open_journal(url) as first, open_journal(url) as second:
        await first.save(run)
        child = below(run, "child")
        await first.save(child)
        assert await second.load("r") == (run, child)
        assert await second.load("child") == (child,)
        assert await second.load("nobody") == ()


async def test_a_step_of_a_long_run_writes_its_own_turn_only(journal: SqlJournal) -> None:
    run = begun()
    await journal.save(run)
    for _ in range(60):
        run = after_turn(run)
        await journal.save(run)
    assert await n_rows(journal, chain) == len(run.context)
    sizes = [len(text) for text in await texts_of(journal, steps.c.data)]
    assert max(sizes[1:]) < 2 * sizes[1]


async def test_conversations_that_begin_alike_share_their_rows(journal: SqlJournal) -> None:
    first = after_turn(begun("one"))
    await journal.save(first)
    n_segments = await n_rows(journal, segments)
    for name in ("two", "three"):
        await journal.save(replace(after_turn(begun(name)), context=first.context))
    fork = replace(begun("four"), context=first.context.append(AssistantMessage(())))
    await journal.save(fork)
    assert await n_rows(journal, segments) == n_segments + 1
    assert await n_rows(journal, chain) == len(first.context) + 1


async def test_a_run_of_a_long_session_adds_what_is_new_in_it(journal: SqlJournal) -> None:
    run = begun("one", session="s")
    for _ in range(20):
        run = after_turn(run)
    await journal.save(replace(run, status="done"))
    later = begun("two", session="s", context=run.context.append(AssistantMessage(())))
    await journal.save(later)
    assert await n_rows(journal, chain) == len(later.context)
    assert await journal.latest("s", "adder") == later
    assert await journal.latest("s", "digger") is None


async def test_results_of_an_open_turn_are_written_once(journal: SqlJournal) -> None:
    calls = tuple(ToolCall(id=f"c{i}", name="add", arguments="{}") for i in range(8))
    turn = SavedTurn(message=AssistantMessage(calls), results={}, started=frozenset())
    run = begun(open_turn=turn)
    await journal.save(run)
    for call in calls:
        result = ToolResult(call_id=call.id, name="add", content=f"<{call.id}>" + "x" * 1_000)
        turn = replace(
            turn, results={**turn.results, call.id: result}, started=turn.started | {call.id}
        )
        run = replace(run, open_turn=turn)
        await journal.save(run)
    assert await journal.load("r") == (run,)
    written = "".join(await texts_of(journal, steps.c.data))
    assert [written.count(f"<{call.id}>") for call in calls] == [1] * 8


async def test_a_long_tool_result_is_kept_once_for_all_runs(journal: SqlJournal) -> None:
    text = "long " * 1_000
    run = begun("one")
    run = replace(run, memory=replace(run.memory, kept={"h": text}))
    await journal.save(run)
    run = after_turn(run)
    await journal.save(run)
    other = replace(begun("two"), memory=run.memory)
    await journal.save(other)
    assert await journal.load("one") == (run,)
    assert await journal.load("two") == (other,)
    assert await n_rows(journal, kept) == 2
    assert [each for each in await texts_of(journal, steps.c.data) if text in each] == []


async def test_a_context_that_is_begun_anew_is_a_new_chain(journal: SqlJournal) -> None:
    run = after_turn(begun())
    await journal.save(run)
    anew = replace(
        after_turn(run),
        context=begun(context=run.context.front).context.append(AssistantMessage(())),
        memory=replace(run.memory, epoch=1),
        said_before=run.context.messages,
    )
    await journal.save(anew)
    longer = replace(anew, context=anew.context.append(UserMessage.of("On.")))
    await journal.save(longer)
    assert await journal.load("r") == (longer,)
    assert [step.kind for step in await journal.steps("r")] == ["begin", "epoch", "context"]
    assert await journal.context_at("r", 1) == run.context


async def test_a_subagent_that_has_changed_is_begun_again_under_its_id(journal: SqlJournal) -> None:
    run = begun()
    await journal.save(run)
    await journal.save(after_turn(below(run, "child")))
    again = below(run, "child", began_at=2000.0)
    await journal.save(again)
    assert await journal.load("r") == (run, again)
    later = after_turn(again)
    await journal.save(later)
    assert await journal.load("r") == (run, later)


async def test_a_run_that_is_put_back_to_the_step_before_is_as_it_was_then(
    journal: SqlJournal,
) -> None:
    call = ToolCall(id="c", name="add", arguments="{}")
    turn = SavedTurn(message=AssistantMessage((call,)), results={}, started=frozenset())
    before = begun(open_turn=turn)
    result = ToolResult(call_id="c", name="add", content="3")
    later = replace(turn, results={"c": result}, started=frozenset({"c"}))
    for run in (before, replace(before, open_turn=later), before, after_turn(before)):
        await journal.save(run)
        assert await journal.load("r") == (run,)
    await journal.save(replace(before, requests=after_turn(before).requests, status="failed"))
    (kept,) = await journal.load("r")
    assert (kept.context, kept.open_turn) == (before.context, before.open_turn)
