"""A run is one process's at a time, and so is a session."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    ContextMismatch,
    tool,
)
from agentkit.journal import JournalError
from agentkit.saved import SavedRun
from agentkit.store import SqlJournal, open_journal
from agentkit.testing import Call, FunctionModel, ScriptedModel
from tests.agentkit.store.made import after_turn, begun, below


async def test_who_lost_a_run_to_another_process_cannot_save_it_any_more(url: str) -> None:
    with open_journal(url) as first, open_journal(url) as second:
        run = begun()
        child = below(run, "child")
        await first.save(run)
        await first.save(child)
        claimed = await second.claim("r")
        assert claimed == (run, child)
        for stale in (after_turn(run), after_turn(child), below(run, "another child")):
            with pytest.raises(JournalError, match="somebody else goes on with it"):
                await first.save(stale)
        await second.save(after_turn(claimed[1]))
        await second.save(after_turn(claimed[0]))
        assert await first.load("r") == (after_turn(run), after_turn(child))


async def test_a_run_may_be_claimed_back(url: str) -> None:
    with open_journal(url) as first, open_journal(url) as second:
        await first.save(begun())
        (of_second,) = await second.claim("r")
        (run,) = await first.claim("r")
        await first.save(after_turn(run))
        with pytest.raises(JournalError, match="no longer ours"):
            await second.save(after_turn(of_second))


async def test_who_claims_a_run_that_moves_gets_all_of_it(url: str) -> None:
    """Every step that was acknowledged is in what the other process gets."""
    with open_journal(url) as first, open_journal(url) as second:
        run = begun()
        await first.save(run)
        saved, is_under_way = [run], asyncio.Event()

        async def go_on() -> None:
            while True:
                later = after_turn(saved[-1])
                await first.save(later)
                saved.append(later)
                if len(saved) == 20:
                    is_under_way.set()

        going = asyncio.create_task(go_on())
        await is_under_way.wait()
        claimed = await second.claim("r")
        with pytest.raises(JournalError, match="no longer ours"):
            await going
        assert claimed == (saved[-1],)


async def test_an_unknown_run_cannot_be_claimed(journal: SqlJournal) -> None:
    with pytest.raises(JournalError, match="there is no run 'nobody'"):
        await journal.claim("nobody")


async def test_the_second_of_two_runs_at_once_in_one_session_is_refused(url: str) -> None:
    with open_journal(url) as first, open_journal(url) as second:
        runs = [begun(name, session="s") for name in ("one", "two")]
        saves = (first.save(runs[0]), second.save(runs[1]))
        errors = [each for each in await asyncio.gather(*saves, return_exceptions=True) if each]
        assert len(errors) == 1
        assert isinstance(errors[0], JournalError)
        assert "the session 's' has the run" in str(errors[0])


async def test_a_session_goes_on_after_its_run_has_ended(journal: SqlJournal) -> None:
    one = begun("one", session="s")
    await journal.save(one)
    await journal.save(replace(one, status="failed"))
    await journal.save(begun("two", session="s"))
    with pytest.raises(JournalError, match="a later run of the session 's'"):
        await journal.save(after_turn(one))


async def test_a_run_id_is_not_used_twice(url: str) -> None:
    with open_journal(url) as first, open_journal(url) as second:
        run = after_turn(begun())
        await first.save(run)
        for journal in (first, second):
            with pytest.raises(JournalError, match="or give a new run_id"):
                await journal.save(begun(began_at=2000.0))
        assert await second.load("r") == (run,)


async def test_a_run_of_before_a_claim_in_the_same_process_is_refused(journal: SqlJournal) -> None:
    run = after_turn(begun())
    await journal.save(run)
    (claimed,) = await journal.claim("r")
    await journal.save(after_turn(claimed, "As the new one says."))
    with pytest.raises(JournalError, match="no longer ours"):
        await journal.save(run)


async def test_a_run_that_was_deleted_meanwhile_ends(url: str) -> None:
    with open_journal(url) as first, open_journal(url) as second:
        run = begun(user="ann")
        await first.save(run)
        assert await second.delete(user="ann") == 1
        for late in (after_turn(run), below(run, "child")):
            with pytest.raises(JournalError, match=r"was deleted|is not in the journal"):
                await first.save(late)
        assert await first.load("r") == ()


async def test_fifty_runs_at_once_keep_all_their_steps(journal: SqlJournal) -> None:
    script = ["One.", "Two."]
    agents = [
        Agent(name="a", instructions=f"{i}", model=ScriptedModel(script), journal=journal)
        for i in range(50)
    ]
    for turn in range(2):
        results = await asyncio.gather(
            *(agent.run("go", session=f"s{i}") for i, agent in enumerate(agents))
        )
        for index, result in enumerate(results):
            last = await journal.latest(f"s{index}", "a")
            assert last is not None
            assert (last.run_id, last.context) == (result.run_id, result.context)
            assert (last.status, len(last.requests)) == ("done", 1), turn
    assert len(await journal.runs(limit=1_000)) == 100
    assert len(journal._worker.latest) == 0, "runs that have ended stay in memory"


async def test_a_second_approval_leaves_the_run_with_who_was_first(url: str) -> None:
    """Neither the second answer nor another agent takes a run from a process that is at it."""
    pays, may_end = asyncio.Event(), asyncio.Event()

    @tool(requires_approval=True)
    async def pay(eur: int) -> str:
        """Pay."""
        pays.set()
        await may_end.wait()
        return "paid"

    def clerk(journal: SqlJournal, **more: Any) -> Agent[Any, Any]:
        model = FunctionModel(lambda said, _: "Done." if said[1:] else Call("pay", {"eur": 1}))
        return Agent(
            **{"name": "clerk", "model": model, "tools": [pay], "journal": journal, **more}
        )

    with open_journal(url) as first, open_journal(url) as second:
        with pytest.raises(ApprovalRequired) as waits:
            await clerk(first).run("Pay.", run_id="r", session="s")
        paused = waits.value.paused
        answer = {paused.pending[0].id: Approve()}
        with pytest.raises(ContextMismatch):
            await clerk(second, instructions="Another role.").resume("r", answer)
        going = asyncio.create_task(clerk(first).resume("r", answer))
        await pays.wait()
        with pytest.raises(ConfigurationError, match="was answered before, and its run is 'runn"):
            await clerk(second).resume("r", answer)
        with pytest.raises(JournalError, match="has gone on since it was paused here"):
            await clerk(second).resume(paused, answer)
        may_end.set()
        assert (await going).output == "Done."


async def test_a_claim_whose_check_fails_takes_nothing(url: str) -> None:
    def check(runs: tuple[SavedRun, ...]) -> None:
        raise ConfigurationError(f"{runs[0].run_id} must be left alone")

    with open_journal(url) as first, open_journal(url) as second:
        run = begun()
        await first.save(run)
        with pytest.raises(ConfigurationError, match="r must be left alone"):
            await second.claim("r", check)
        await first.save(after_turn(run))
        assert await second.load("r") == (after_turn(run),)
