"""Runs whose process is gone are found, and taken by one; those that go on are left alone."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from sqlalchemy import select, update

from agentkit import Agent, tool
from agentkit.errors import ConfigurationError
from agentkit.journal import JournalError
from agentkit.store import SqlJournal, leases, open_journal
from agentkit.store.schema import runs
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.store.made import after_turn, begun, below


async def silence(journal: SqlJournal, for_s: float = 1_000.0) -> None:
    """Let it be long since anything was heard of any run."""
    values = {"saved_at": runs.c.saved_at - for_s, "seen_at": runs.c.seen_at - for_s}
    await journal._worker.write(lambda c: c.execute(update(runs).values(**values)))


async def orphans(journal: SqlJournal) -> list[str]:
    return [row.run_id for row in await journal.orphans()]


async def seen_at(journal: SqlJournal) -> float:
    query = select(runs.c.seen_at)
    return await journal._worker.read(lambda c: float(c.execute(query).scalar_one()))


async def test_only_running_roots_of_which_nothing_was_heard_are_orphans(
    journal: SqlJournal,
) -> None:
    for index, status in enumerate(["running", "done", "failed", "paused", "running"]):
        began_at = 1_000.0 - index
        await journal.save(begun(f"{index}", session=f"s{index}", status=status, began_at=began_at))
    await journal.save(below(begun("0"), "child"))
    assert await orphans(journal) == []
    await silence(journal)
    assert await orphans(journal) == ["4", "0"]  # the oldest first
    assert await journal.orphans(agent="somebody") == ()
    assert await journal.orphans(older_than_s=2_000.0) == ()
    (row, _) = await journal.orphans()
    assert 1_000.0 <= time.time() - row.seen_at < 1_100.0


async def test_a_run_is_no_orphan_while_one_below_it_is_saved(journal: SqlJournal) -> None:
    run = begun("r")
    child = below(run, "child")
    for each in (run, child):
        await journal.save(each)
    await silence(journal)
    await journal.save(after_turn(child))
    assert await orphans(journal) == []
    assert not await journal.adopt("r")


async def test_of_many_who_look_at_once_one_gets_a_run(journal: SqlJournal, url: str) -> None:
    run = begun("r", claim="of the process that is gone")
    await journal.save(run)
    await journal.save(below(run, "child", claim=run.claim))
    await silence(journal)
    workers = [open_journal(url) for _ in range(4)]
    got = await asyncio.gather(*(each.adopt("r") for each in workers))
    assert sorted(got) == [False, False, False, True]
    for each in workers:
        each.close()
    with pytest.raises(JournalError, match="no longer ours"):
        await journal.save(after_turn(run))
    with pytest.raises(JournalError, match="no longer ours"):
        await journal.save(after_turn(below(run, "child", claim=run.claim)))
    (row,) = await journal.runs()
    assert row.n_adopted == 1
    # Who got it may be gone before it has resumed the run.
    assert await orphans(journal) == []
    await silence(journal)
    assert await journal.adopt("r")


async def test_workers_that_look_at_once_resume_each_orphan_once(
    journal: SqlJournal, url: str
) -> None:
    """The loop of docs/durable-runs.md."""

    async def echo(text: str) -> str:
        """Say it again."""
        return text

    def agent(kept: SqlJournal, *script: Any) -> Agent[None, str]:
        model = ScriptedModel(script)
        return Agent(name="a", instructions="x", tools=[echo], model=model, journal=kept)

    for index in range(4):
        crashing = agent(journal, [Call("echo", {"text": "x"})], RuntimeError("gone"))
        with pytest.raises(RuntimeError):
            await crashing.run("Go.", run_id=f"r{index}")
    await journal._worker.write(lambda c: c.execute(update(runs).values(status="running")))
    await silence(journal)
    workers = [open_journal(url) for _ in range(3)]

    async def resume_orphans(kept: SqlJournal) -> list[str]:
        resumed = []
        for run in await kept.orphans(agent="a"):
            if await kept.adopt(run.run_id):
                assert (await agent(kept, "Done.").resume(run.run_id)).output == "Done."
                resumed.append(run.run_id)
        return resumed

    resumed = await asyncio.gather(*map(resume_orphans, workers))
    assert sorted(run_id for each in resumed for run_id in each) == ["r0", "r1", "r2", "r3"]
    assert {(row.status, row.n_adopted) for row in await journal.runs()} == {("done", 1)}
    for each in workers:
        each.close()


async def test_what_has_ended_or_is_unknown_or_below_is_not_adopted(journal: SqlJournal) -> None:
    await journal.save(begun("done", status="done"))
    run = begun("r")
    await journal.save(run)
    await journal.save(below(run, "child"))
    await silence(journal)
    assert [await journal.adopt(each) for each in ("done", "child", "nobody")] == [False] * 3


async def test_a_claim_is_a_sign_of_life(journal: SqlJournal) -> None:
    await journal.save(begun("r"))
    await silence(journal)
    await journal.claim("r")
    assert await orphans(journal) == []


async def test_a_run_that_waits_long_in_a_call_is_no_orphan_until_its_process_is_gone(
    journal: SqlJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call lasts until the thread has said several times that the run goes on."""
    monkeypatch.setattr(leases, "RENEWED_EVERY_S", 0.001)
    loop, is_said, found = asyncio.get_running_loop(), asyncio.Event(), list[str]()

    def renew(held: list[leases.Lease]) -> None:
        journal._renew(held)
        loop.call_soon_threadsafe(is_said.set)

    journal._leases = leases.Leases(renew, 0.001)

    @tool
    async def wait() -> str:
        """Wait."""
        for _ in range(3):
            await silence(journal)
            for _ in range(2):  # the first may have been under way
                is_said.clear()
                await is_said.wait()
            found.extend(await orphans(journal))
        return "waited"

    agent = Agent(
        name="a",
        instructions="You wait.",
        tools=[wait],
        model=ScriptedModel([[Call("wait", {})], RuntimeError("the end")]),
        journal=journal,
    )
    with pytest.raises(RuntimeError, match="the end"):
        await agent.run("Wait.", run_id="r")
    assert found == []
    assert journal._leases._held == {}


async def test_nothing_is_said_of_a_run_that_somebody_else_has_claimed(
    journal: SqlJournal,
) -> None:
    await journal.save(begun("r", claim="mine"))
    await journal.claim("r")
    await silence(journal)
    journal._renew([("r", "mine")])
    assert await orphans(journal) == ["r"]


async def test_nothing_is_written_of_a_run_that_was_saved_lately(journal: SqlJournal) -> None:
    await journal.save(begun("r", claim="mine"))
    journal._renew([("r", "mine")])
    assert await seen_at(journal) == 0.0
    await silence(journal)
    journal._renew([("r", "mine")])
    assert time.time() - await seen_at(journal) < 500.0


def test_the_thread_is_there_only_while_runs_go_on_and_outlives_a_failing_database() -> None:
    renewed = list[list[leases.Lease]]()
    is_enough = threading.Event()

    def renew(held: list[leases.Lease]) -> None:
        renewed.append(held)
        if len(renewed) == 2:
            is_enough.set()
        raise JournalError("the disk is full")

    said = leases.Leases(renew, 0.001)
    with said.held("r", "mine"):
        thread = said._thread
        assert is_enough.wait(10.0)
    assert thread is not None
    thread.join(10.0)
    assert not thread.is_alive()
    assert renewed[:2] == [[("r", "mine")]] * 2
    slow = leases.Leases(renew, 1_000.0)
    with slow.held("r", "mine"):
        slow.close()
        assert slow._thread is None
        slow.close()


def test_runs_say_that_they_go_on_soon_after_the_database_is_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It failed once; the next time is not the usual one, which never comes here."""
    monkeypatch.setattr(leases, "_AGAIN_AFTER_S", 0.001)
    renewed = list[list[leases.Lease]]()
    is_enough = threading.Event()

    def renew(held: list[leases.Lease]) -> None:
        renewed.append(held)
        if len(renewed) == 1:
            said._every_s = 1_000.0
            raise JournalError("the server is away")
        is_enough.set()

    said = leases.Leases(renew, 0.001)
    with said.held("r", "mine"):
        assert is_enough.wait(10.0)
        said.close()
    assert renewed == [[("r", "mine")]] * 2


@pytest.mark.parametrize("age", [44.9, 0, float("nan"), float("inf"), True, "60"])
async def test_an_age_at_which_living_runs_are_silent_is_refused(
    journal: SqlJournal, age: float
) -> None:
    with pytest.raises(ConfigurationError, match="must be at least 45 seconds"):
        await journal.orphans(older_than_s=age)
    with pytest.raises(ConfigurationError, match="must be at least 45 seconds"):
        await journal.adopt("r", older_than_s=age)
