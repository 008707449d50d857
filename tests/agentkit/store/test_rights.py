"""Only who has begun or claimed a run last saves it: in one process, and over deletions, too."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    Hooks,
    MemoryJournal,
    PausedRun,
    ToolContext,
    ToolOutput,
    tool,
)
from agentkit.blocks import ToolCall, ToolMessage
from agentkit.hooks import HookContext
from agentkit.journal import Journal, JournalError
from agentkit.store import SqlJournal, open_journal
from agentkit.testing import Call, FunctionModel, ScriptedModel, Step
from tests.agentkit.store.made import after_turn, begun, below


class Gate:
    """A tool that is entered, and left when it may."""

    def __init__(self) -> None:
        self.entered, self.may_end = asyncio.Event(), asyncio.Event()
        self.n_runs = 0

    async def pass_(self, answer: str = "done") -> str:
        self.n_runs += 1
        self.entered.set()
        await self.may_end.wait()
        return answer


def working(gate: Gate, journal: Journal, answer: str = "done", **more: Any) -> Agent[Any, Any]:
    @tool
    async def work() -> str:
        """Work."""
        return await gate.pass_(answer)

    model = FunctionModel(lambda said, _: f"{answer}." if said[1:] else Call("work", {}))
    return Agent(name="desk", model=model, tools=[work], journal=journal, **more)


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def any_journal(request: pytest.FixtureRequest, folder: Path) -> Any:
    if request.param == "memory":
        yield MemoryJournal()
        return
    url = f"{folder / 'runs.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    with open_journal(url) as opened:
        yield opened


# Two at once.


@pytest.mark.parametrize("by_id", [True, False], ids=["by id", "by pause"])
async def test_of_two_agents_that_resume_a_run_at_once_one_makes_the_call(
    any_journal: Any, *, by_id: bool
) -> None:
    charged: list[int] = []

    @tool(requires_approval=True)
    async def charge(usd: int) -> str:
        """Charge."""
        charged.append(usd)
        return "ok"

    def clerk(*script: Step) -> Agent[Any, Any]:
        return Agent(name="a", model=ScriptedModel(script), tools=[charge], journal=any_journal)

    with pytest.raises(ApprovalRequired) as waits:
        await clerk(Call("charge", {"usd": 5})).run("Go.", run_id="r")
    paused = waits.value.paused
    answers = {paused.pending[0].id: Approve()}
    whole: PausedRun | str = "r" if by_id else paused
    clerks = [FunctionModel(lambda *_: "Done.") for _ in range(2)]
    both = await asyncio.gather(
        *(
            Agent(name="a", model=model, tools=[charge], journal=any_journal).resume(whole, answers)
            for model in clerks
        ),
        return_exceptions=True,
    )
    assert len(charged) == 1
    assert len([each for each in both if isinstance(each, JournalError)]) == 1
    (run,) = await any_journal.load("r")
    assert run.status == "done"
    assert [
        result.content
        for message in run.context.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ] == ["ok"]


async def test_who_had_a_run_before_does_not_say_how_it_ended(any_journal: Any) -> None:
    old, new = Gate(), Gate()
    first = asyncio.create_task(working(old, any_journal).run("Go.", run_id="r"))
    await old.entered.wait()

    async def answers(*_: Any) -> Any:
        return await new.pass_()

    model = FunctionModel(answers)
    second = asyncio.create_task(
        Agent(
            name="desk", model=model, tools=working(old, any_journal).tools, journal=any_journal
        ).resume("r")
    )
    await new.entered.wait()
    first.cancel()
    await asyncio.wait([first])
    assert (await any_journal.load("r"))[0].status == "running"
    new.may_end.set()
    assert (await second).output == "done"
    assert (await any_journal.load("r"))[0].status == "done"


async def test_an_agent_knows_that_it_is_at_a_run_that_it_has_named_itself(
    any_journal: Any,
) -> None:
    gate, ids = Gate(), list[str]()

    @tool(idempotent=True)
    async def look(context: ToolContext[object]) -> str:
        """Look."""
        ids.append(context.run_id)
        return await gate.pass_()

    agent = Agent(
        name="a",
        model=ScriptedModel([Call("look", {}), "Seen."]),
        tools=[look],
        journal=any_journal,
    )
    run = asyncio.create_task(agent.run("Go."))
    await gate.entered.wait()
    with pytest.raises(JournalError, match="is under way already, with this agent"):
        await agent.resume(ids[0])
    gate.may_end.set()
    assert (await run).output == "Seen."
    assert gate.n_runs == 1
    assert (await agent.resume(ids[0])).output == "Seen.", "it holds what it has ended"


class Holds(Hooks):
    """Lets no call pass until it may."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
        await self._gate.pass_()
        return None


@pytest.mark.parametrize("waits_for", ["hooks", "approval"])
async def test_a_call_that_waited_while_its_run_was_lost_is_not_begun(
    any_journal: Any, waits_for: str
) -> None:
    gate, looked = Gate(), list[str]()

    @tool(idempotent=True, requires_approval=waits_for == "approval")
    async def look() -> str:
        """Look."""
        looked.append("")
        return "seen"

    class Waits(Agent[None, str]):
        """You look."""

        async def approve(self, call: ToolCall, context: ToolContext[Any]) -> Approve:
            await gate.pass_()
            return Approve()

    class Knows(Agent[None, str]):
        """You look."""

        async def approve(self, call: ToolCall, context: ToolContext[Any]) -> Approve:
            return Approve()

    def of(kind: type[Agent[None, str]], *script: Step, hooks: Any = ()) -> Agent[None, str]:
        model = ScriptedModel(script)
        return kind(name="a", model=model, tools=[look], hooks=hooks, journal=any_journal)

    hooks = [Holds(gate)] if waits_for == "hooks" else []
    lost = asyncio.create_task(of(Waits, Call("look", {}), hooks=hooks).run("Go.", run_id="r"))
    await gate.entered.wait()
    assert (await of(Knows, "Seen.").resume("r")).output == "Seen."
    gate.may_end.set()
    with pytest.raises(JournalError, match="no longer ours"):
        await lost
    assert len(looked) == 1


# Deletions.


async def test_a_run_that_was_deleted_writes_into_no_other(url: str) -> None:
    gates = {"ann": Gate(), "bob": Gate()}
    with open_journal(url) as journal:

        def begun_by(user: str) -> asyncio.Task[Any]:
            agent = working(gates[user], journal, f"secret of {user}")
            return asyncio.create_task(agent.run(f"I am {user}.", run_id=user, user=user))

        ann = begun_by("ann")
        await gates["ann"].entered.wait()
        assert await journal.delete(user="ann") == 1
        bob = begun_by("bob")
        await gates["bob"].entered.wait()
        gates["ann"].may_end.set()
        with pytest.raises(JournalError, match="it was deleted"):
            await ann
        gates["bob"].may_end.set()
        assert (await bob).output == "secret of bob."
        assert [row.run_id for row in await journal.runs()] == ["bob"]
        assert "ann" not in repr(await journal.load("bob"))


async def test_a_deleted_run_that_is_not_remembered_any_more_does_not_come_back(
    journal: SqlJournal,
) -> None:
    """Of more runs than are remembered, some are read again before they are saved."""
    gate = Gate()
    run = asyncio.create_task(working(gate, journal).run("Go.", run_id="r"))
    await gate.entered.wait()
    await journal.delete(run_id="r")
    assert journal._worker.latest.get("r") is None
    gate.may_end.set()
    with pytest.raises(JournalError, match="it was deleted"):
        await run
    assert await journal.load("r") == ()


async def test_a_run_is_begun_again_with_the_id_of_a_deleted_one_and_the_same_subagents(
    url: str,
) -> None:
    with open_journal(url) as journal, open_journal(url) as operator:
        for deleter in (journal, operator):
            gate = Gate()

            async def digs(*_: Any, gate: Gate = gate) -> Any:
                return await gate.pass_("dug")

            def boss(model: Callable[..., Any] = digs) -> Agent[Any, Any]:
                digger = Agent(name="digger", instructions="You dig.", model=FunctionModel(model))
                script: list[Step] = [Call("delegate_to_digger", {"task": "Dig."}), "Fine."]
                return Agent(
                    name="boss", model=ScriptedModel(script), subagents=[digger], journal=journal
                )

            lost = asyncio.create_task(boss().run("Go.", run_id="nightly"))
            await gate.entered.wait()
            assert await deleter.delete(run_id="nightly") == 2
            gate.may_end.set()
            again = await boss().run("Go.", run_id="nightly")
            assert again.output == "Fine."
            with pytest.raises(JournalError, match="no longer ours"):
                await lost
            assert len(await journal.load("nightly")) == 2
            await journal.delete(run_id="nightly")


async def test_a_deletion_that_somebody_who_reads_keeps_from_the_files_says_so(
    folder: Path,
) -> None:
    path = folder / "runs.db"
    with open_journal(path, timeout_s=0.05) as journal, closing(sqlite3.connect(path)) as reader:
        await journal.save(after_turn(begun(user="ann"), "the number is 4711"))
        reader.isolation_level = None
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM agentkit_runs").fetchall()
        with pytest.raises(JournalError, match="its text is still in the files of"):
            await journal.delete(user="ann")
        with pytest.raises(JournalError, match="its text is still in the files of"):
            await journal.vacuum()
        assert await journal.load("r") == ()
        reader.execute("COMMIT")
        assert _files_hold(folder, b"4711"), "nothing to forget"
        assert await journal.delete(user="ann") == 0
        assert not _files_hold(folder, b"4711")


def _files_hold(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.iterdir())


# Claims as such.


async def test_a_claim_is_no_other_claim_and_holds_for_the_runs_below(any_journal: Any) -> None:
    run = begun()
    for each in (run, below(run, "child")):
        await any_journal.save(each)
    first = await any_journal.claim("r")
    second = await any_journal.claim("r")
    assert first == second
    assert len({each.claim for each in (*first, *second)}) == 2
    for stale in (*map(after_turn, first), below(first[0], "another child")):
        with pytest.raises(JournalError, match="no longer ours"):
            await any_journal.save(stale)
    later = tuple(map(after_turn, second))
    for each in later:
        await any_journal.save(each)
    assert await any_journal.load("r") == later
    assert "claim" not in second[0].to_json()


async def test_a_pause_of_a_run_without_a_journal_goes_on_in_one(any_journal: Any) -> None:
    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def clerk(*script: Step) -> Agent[Any, Any]:
        return Agent(name="a", model=ScriptedModel(script), tools=[pay])

    with pytest.raises(ApprovalRequired) as waits:
        await clerk(Call("pay", {})).run("Go.")
    paused = waits.value.paused
    answers = {paused.pending[0].id: Approve()}
    done = await clerk("Paid.").resume(paused, answers, journal=any_journal)
    assert done.output == "Paid."
    assert (await any_journal.load(paused.run_id))[0].status == "done"
