"""Agents on a journal in a database: what they do is kept, whatever ends them."""

from __future__ import annotations

import asyncio

import pytest

from agentkit import Agent
from agentkit.blocks import ToolMessage
from agentkit.errors import ApprovalRequired, ConfigurationError
from agentkit.saved import Approve, SavedRun
from agentkit.store import SqlJournal, open_journal
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import tool


class Slow:
    """A journal whose caller is cancelled while a result is being kept."""

    def __init__(self, journal: SqlJournal) -> None:
        self._journal = journal
        self.cancel: asyncio.Task[object] | None = None

    async def save(self, run: SavedRun) -> None:
        if self.cancel is not None and run.open_turn is not None and run.open_turn.results:
            self.cancel.cancel()
            self.cancel = None
        await self._journal.save(run)

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)


async def test_a_result_that_is_kept_while_the_run_is_cancelled_is_not_lost(
    journal: SqlJournal,
) -> None:
    n_charges = 0

    @tool
    def charge() -> str:
        """Charge an account."""
        nonlocal n_charges
        n_charges += 1
        return "Charged."

    slow = Slow(journal)
    model = ScriptedModel([[Call("charge")], "Done."])
    agent = Agent(name="a", instructions="You charge.", tools=[charge], model=model, journal=slow)
    slow.cancel = asyncio.create_task(agent.run("go", run_id="r"))
    with pytest.raises(asyncio.CancelledError):
        await slow.cancel
    (kept,) = await journal.load("r")
    assert kept.status == "cancelled"
    assert kept.open_turn is not None
    assert [each.content for each in kept.open_turn.results.values()] == ["Charged."]
    result = await agent.resume("r")
    (answered,) = (each for each in result.context.messages if isinstance(each, ToolMessage))
    assert (answered.results[0].content, n_charges, result.output) == ("Charged.", 1, "Done.")


async def test_a_call_is_approved_in_another_process_and_only_once(url: str) -> None:
    n_charges = 0

    @tool(requires_approval=True)
    def charge() -> str:
        """Charge an account."""
        nonlocal n_charges
        n_charges += 1
        return "Charged."

    def agent(journal: SqlJournal, *script: object) -> Agent:
        model = ScriptedModel(script)  # type: ignore[arg-type]
        return Agent(
            name="a", instructions="You charge.", tools=[charge], model=model, journal=journal
        )

    with open_journal(url) as journal:
        with pytest.raises(ApprovalRequired) as caught:
            await agent(journal, [Call("charge")]).run("go", session="s")
    paused = caught.value.paused
    answers = {paused.pending[0].id: Approve()}
    with open_journal(url) as journal:
        later = agent(journal, "Done.")
        assert (await later.resume(paused.run_id, answers)).output == "Done."
        with pytest.raises(ConfigurationError, match="was answered before"):
            await later.resume(paused.run_id, answers)
    assert n_charges == 1


async def test_a_session_goes_on_in_another_process_from_the_same_bytes(url: str) -> None:
    def agent(journal: SqlJournal, *answers: str) -> Agent:
        model = ScriptedModel(list(answers))
        return Agent(name="a", instructions="You answer.", model=model, journal=journal)

    with open_journal(url) as journal:
        first = await agent(journal, "One.").run("1?", session="s")
    with open_journal(url) as journal:
        second = await agent(journal, "Two.").run("2?", session="s")
        assert second.context.starts_with(first.context)
        assert [row.status for row in await journal.runs(session="s")] == ["done", "done"]


def test_a_journal_serves_one_event_loop_after_the_other(journal: SqlJournal) -> None:
    model = ScriptedModel(["One.", "Two."])
    agent = Agent(name="a", instructions="You answer.", model=model, journal=journal)
    assert agent.run_sync("1?", session="s").output == "One."
    assert agent.run_sync("2?", session="s").output == "Two."
