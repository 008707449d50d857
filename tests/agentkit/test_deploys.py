"""A new version of an agent, and the conversations and waiting runs of the one before."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    ContextMismatch,
    Deny,
    JournalError,
    MemoryJournal,
    PausedRun,
    Tool,
    tool,
)
from agentkit.blocks import ToolMessage
from agentkit.events import ContextCompacted
from agentkit.journal import Journal
from agentkit.store import open_journal
from agentkit.testing import Call, ScriptedModel, Step, assert_prefix_stable


@tool(requires_approval=True)
def pay(eur: int) -> str:
    """Pay."""
    return f"paid {eur}"


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool(name="look")
def look_better() -> str:
    """Look well."""
    return "seen well"


def desk(
    journal: Journal | None,
    version: str,
    *script: Step,
    tools: tuple[Tool, ...] = (pay, look),
    **more: Any,
) -> Agent[Any, Any]:
    model = more.pop("model", None) or ScriptedModel(list(script))
    return Agent(
        name="desk", instructions=version, model=model, tools=tools, journal=journal, **more
    )


async def waiting(journal: Journal | None) -> PausedRun:
    calls = [Call("look"), Call("pay", {"eur": 5})]
    with pytest.raises(ApprovalRequired) as waits:
        await desk(journal, "v1", calls).run("Pay.", run_id="r", **_session(journal))
    return waits.value.paused


def _session(journal: Journal | None) -> Any:
    return {} if journal is None else {"session": "s"}


def told(messages: Any) -> list[list[str]]:
    return [[r.content for r in each.results] for each in messages if isinstance(each, ToolMessage)]


async def test_a_run_that_waits_is_abandoned_and_its_session_goes_on() -> None:
    with open_journal("sqlite://") as journal:
        await waiting(journal)
        with pytest.raises(JournalError, match=r"end it with await agent.abandon\('r'\)"):
            await desk(journal, "v1", "Hello.").run("Hello?", session="s")
        context = await desk(journal, "v2").abandon("r")
        assert told(context.messages) == [
            ["seen", "This call was not run: the run was ended before anybody had agreed to it."]
        ]
        (row,) = await journal.runs()
        assert row.status == "failed"
        assert await desk(journal, "v2").abandon("r") == context  # once more: nothing changes
        result = await desk(journal, "v1", "Hello.").run("Hello?", session="s")
        assert result.context.starts_with(context)


async def test_the_team_of_an_abandoned_run_is_ended_with_it() -> None:
    child = Agent(name="clerk", instructions="You pay.", tools=[pay])
    script = {
        "desk": [Call("delegate_to_clerk", {"task": "Pay."})],
        "clerk": [Call("pay", {"eur": 1})],
    }
    with open_journal("sqlite://") as journal:
        root = desk(journal, "v1", model=ScriptedModel(script), tools=(), subagents=[child])
        with pytest.raises(ApprovalRequired):
            await root.run("Pay.", run_id="r")
        await root.abandon("r")
        runs = await journal.load("r")
        assert [(run.status, run.open_turn) for run in runs] == [("failed", None)] * 2
        with pytest.raises(ConfigurationError, match="is a part of run 'r'"):
            await root.abandon(runs[1].run_id)


async def test_a_paused_value_is_abandoned_without_a_journal_and_a_done_run_never() -> None:
    paused = await waiting(None)
    context = await desk(None, "v2").abandon(paused)
    assert context.open_calls == ()
    journal = MemoryJournal()
    agent = desk(journal, "v1", "Done.")
    await agent.run("Hello.", run_id="d")
    with pytest.raises(ConfigurationError, match="is done"):
        await agent.abandon("d")
    with pytest.raises(ContextMismatch, match="begun by agent 'desk'"):
        await Agent(name="other", model=ScriptedModel([]), journal=journal).abandon("d")


async def test_by_default_a_deploy_is_refused_with_ways_out_that_work() -> None:
    journal = MemoryJournal()
    paused = await waiting(journal)
    with pytest.raises(ContextMismatch, match=r"role differs.*on_front_change.*agent.abandon"):
        await desk(journal, "v2").resume(paused, {paused.pending[0].id: Approve()})
    await desk(journal, "v2").abandon(paused.run_id)
    result = await desk(journal, "v2", "Hello.", on_front_change="epoch").run("Hi?", session="s")
    assert result.output == "Hello."


@pytest.mark.parametrize("is_value", [True, False])
async def test_with_an_epoch_a_waiting_run_goes_on_under_the_new_version(is_value: bool) -> None:
    with open_journal("sqlite://") as journal:
        paused = await waiting(journal)
        model = ScriptedModel(["Paid.", "Hello."])
        new = desk(journal, "v2", model=model, tools=(pay, look_better), on_front_change="epoch")
        key = paused.pending[0].id
        stream = new.resume_stream(paused if is_value else "r", {key: Approve()})
        async with stream as running:
            events = [event async for event in running]
        (anew,) = [event for event in events if isinstance(event, ContextCompacted)]
        assert (anew.cause, anew.turn) == ("front", 0)
        assert "its tools have changed" in anew.reason
        assert anew.tokens_before > 0 < anew.tokens_after
        result = stream.result
        assert told(result.messages) == [["seen", "paid 5"]]
        assert [each.kind for each in result.messages] == ["user", "assistant", "tool", "assistant"]
        later = await new.run("Hello?", session="s")
        assert later.context.starts_with(result.context)
        assert_prefix_stable(model.calls)
        assert model.calls[0].request.epoch == 1
        (row, _) = await journal.runs()
        assert row.status == "done"
        assert (await journal.load("r"))[0].context == result.context


async def test_an_answer_for_a_tool_that_is_gone_is_told_to_the_model() -> None:
    journal = MemoryJournal()
    paused = await waiting(journal)
    new = desk(journal, "v2", "Pity.", tools=(look,), on_front_change="epoch")
    result = await new.resume("r", {paused.pending[0].id: Approve()})
    ((seen, gone),) = told(result.messages)
    assert seen == "seen"
    assert "pay" in gone
    assert result.output == "Pity."


async def test_a_waiting_subagent_goes_on_under_the_new_version_too() -> None:
    def team(version: str, script: dict[str, list[Step]]) -> Agent[Any, Any]:
        child = Agent(name="clerk", instructions=f"You pay, {version}.", tools=[pay])
        model = ScriptedModel(script)
        return desk(
            journal, version, model=model, tools=(), subagents=[child], on_front_change="epoch"
        )

    with open_journal("sqlite://") as journal:
        calls: dict[str, list[Step]] = {
            "desk": [Call("delegate_to_clerk", {"task": "Pay."})],
            "clerk": [Call("pay", {"eur": 7})],
        }
        with pytest.raises(ApprovalRequired) as waits:
            await team("v1", calls).run("Pay.", run_id="r")
        (pending,) = waits.value.paused.pending
        new = team("v2", {"desk": ["All done."], "clerk": ["I paid."]})
        result = await new.resume("r", {pending.id: Approve()})
        assert result.output == "All done."
        (child,) = result.children
        assert told(child.result.messages if child.kind == "ok" else ()) == [["paid 7"]]


async def test_with_an_epoch_a_denied_call_stays_denied_and_sessions_go_on() -> None:
    journal = MemoryJournal()
    paused = await waiting(journal)
    new = desk(journal, "v2", "All right.", on_front_change="epoch")
    result = await new.resume("r", {paused.pending[0].id: Deny("too much")})
    assert "too much" in told(result.messages)[0][1]
    third = desk(journal, "v3", "Hello.", on_front_change="epoch")
    async with third.stream("Hello?", session="s") as events:
        kinds = [event.kind async for event in events]
    assert kinds[:2] == ["run_started", "context_compacted"]
    assert events.result.context.messages[: len(result.context.messages)] == result.context.messages


def test_another_word_for_what_a_deploy_does_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='must be "refuse" or "epoch"'):
        desk(None, "v1", on_front_change="rebase")
