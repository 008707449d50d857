"""What is deleted is gone, and nothing else is."""

from __future__ import annotations

import asyncio
import itertools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from agentkit import Agent
from agentkit.errors import ConfigurationError
from agentkit.journal import JournalError
from agentkit.saved import SavedRun
from agentkit.store import SqlJournal, open_journal
from agentkit.store.erasing import sweep
from agentkit.store.schema import chain, kept, runs, segments, steps
from agentkit.testing import FunctionModel
from tests.agentkit.store.counts import n_rows
from tests.agentkit.store.made import after_turn, begun, below, in_new_epoch

_TABLES = (runs, steps, chain, kept, segments)


async def _rows(journal: SqlJournal) -> list[int]:
    return [await n_rows(journal, table) for table in _TABLES]


async def test_a_users_data_is_deleted_with_the_runs_below_and_others_stay(
    journal: SqlJournal,
) -> None:
    ann = begun("a", user="ann")
    ann = after_turn(ann, memory=replace(ann.memory, kept={"h": "long", "shared": "text"}))
    bob = begun("b", user="bob")
    bob = replace(bob, memory=replace(bob.memory, kept={"shared": "text"}))
    await journal.save(bob)
    before = await _rows(journal)
    await journal.save(ann)
    await journal.save(below(ann, "child"))
    assert await journal.delete(user="ann") == 2
    assert await _rows(journal) == before
    assert await journal.load("a") == await journal.load("child") == ()
    assert await journal.load("b") == (bob,)
    assert await journal.delete(user="ann") == 0


async def test_what_a_run_may_go_back_to_goes_with_it_and_not_before(journal: SqlJournal) -> None:
    run = begun("a", user="ann")
    other = in_new_epoch(begun("b", user="bob"), "Told another.")
    await journal.save(other)
    before = await _rows(journal)
    for each in (run, in_new_epoch(run)):
        await journal.save(each)
    for _ in range(2):
        assert await journal.vacuum() == 0
        assert await journal.load("a") == (in_new_epoch(run),)
    assert await journal.delete(user="ann") == 1
    assert await _rows(journal) == before
    assert await journal.load("b") == (other,)
    assert await journal.delete(user="bob") == 1
    assert await _rows(journal) == [0] * len(_TABLES)


async def test_what_a_run_may_go_back_to_stays_when_who_said_it_is_deleted(
    journal: SqlJournal,
) -> None:
    run = begun("a", user="ann")
    other = in_new_epoch(begun("b"))
    assert other.way_back is not None
    other = replace(other, way_back=replace(other.way_back, context=run.context))
    for each in (run, other):
        await journal.save(each)
    assert await journal.delete(user="ann") == 1
    assert await journal.load("b") == (other,)


async def test_a_session_or_one_run_is_deleted(journal: SqlJournal) -> None:
    for name, session in (("one", "s"), ("two", "s"), ("three", "t")):
        await journal.save(begun(name, session=session, status="done"))
    assert await journal.delete(run_id="two") == 1
    assert [row.run_id for row in await journal.runs()] == ["three", "one"]
    assert await journal.delete(session="s") == 1
    assert await journal.delete(session="t") == 1
    assert await _rows(journal) == [0] * len(_TABLES)


async def test_a_subagents_run_is_deleted_by_itself(journal: SqlJournal) -> None:
    run = begun()
    child = below(run, "child")
    for each in (run, child, below(child, "grandchild")):
        await journal.save(each)
    assert await journal.delete(run_id="child") == 2
    assert await journal.load("r") == (run,)


@pytest.mark.parametrize("given", [{}, {"user": "a", "session": "b"}])
async def test_a_deletion_says_exactly_one_thing(
    journal: SqlJournal, given: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match="exactly one of"):
        await journal.delete(**given)


async def test_no_byte_of_what_was_deleted_is_left_in_sqlites_files(folder: Path) -> None:
    secret = "the number is 4711 " * 50
    with open_journal(folder / "runs.db") as journal:
        run = begun(user="ann", prompt=secret)
        await journal.save(begun("other"))
        await journal.save(run)
        run = after_turn(run, secret, memory=replace(run.memory, kept={"h": secret}))
        await journal.save(run)
        assert _files_hold(folder, b"4711")
        await journal.delete(user="ann")
        assert not _files_hold(folder, b"4711")
        assert len(await journal.load("other")) == 1


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def _files_hold(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.iterdir())


async def test_vacuum_gives_back_space_and_finds_what_nobody_needs(folder: Path) -> None:
    with open_journal(folder / "runs.db") as journal:
        for index in range(30):
            await journal.save(after_turn(begun(f"{index}", user="ann"), "x" * 20_000 + str(index)))
        await journal.save(begun("other"))
        size = _size(folder)
        await journal._worker.write(lambda c: c.execute(steps.delete().where(steps.c.run <= 10)))
        assert await journal.vacuum() == 10
        await journal.delete(user="ann")
        assert await journal.vacuum() == 0
        assert _size(folder) < size / 2
        assert len(await journal.load("other")) == 1


async def test_who_forks_a_conversation_while_it_is_deleted_has_all_of_it(url: str) -> None:
    """Either the fork comes first, and its segments stay, or it writes them again."""
    run = begun("origin", user="ann")
    for _ in range(10):
        run = after_turn(run)
    with open_journal(url) as first, open_journal(url) as second:
        for number in range(10):
            origin = replace(run, run_id=f"origin {number}", session=f"o {number}")
            fork = begun(f"fork {number}", context=run.context)
            await first.save(origin)
            await asyncio.gather(second.delete(user="ann"), first.save(fork))
            assert await second.load(f"fork {number}") == (fork,)
            assert await second.load(f"origin {number}") == ()


async def test_who_saves_in_the_middle_of_a_deletion_waits_for_its_end(postgres_url: str) -> None:
    """Else it could refer to what the deletion has found to be of no use to anybody."""
    run = begun("origin", user="ann")
    fork = begun("fork", context=after_turn(run).context)
    with open_journal(postgres_url) as saver, open_journal(postgres_url) as deleter:
        await saver.save(after_turn(run))
        saving = threading.Thread(target=lambda: asyncio.run(saver.save(fork)))

        def middle(*arguments: Any) -> None:
            if arguments[2].startswith("DELETE FROM agentkit_chain") and not saving.ident:
                saving.start()
                while saving.is_alive() and not _somebody_waits(postgres_url):
                    saving.join(0.01)

        event.listen(deleter._worker.engine, "before_cursor_execute", middle)
        assert await deleter.delete(user="ann") == 1
        await asyncio.to_thread(saving.join)
        assert await deleter.load("fork") == (fork,)


def _somebody_waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        waiting = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return waiting is not None and waiting[0] > 0


@st.composite
def forests(draw: st.DrawFn) -> list[SavedRun]:
    """Runs of three users, some of which go on with the conversations of others."""
    made: list[SavedRun] = []
    for _ in range(draw(st.integers(1, 6))):
        user = draw(st.sampled_from(["ann", "bob", "cy"]))
        run = begun(user=user)
        if made and draw(st.booleans()):
            run = begun(user=user, context=draw(st.sampled_from(made)).context)
        for _ in range(draw(st.integers(0, 3))):
            run = after_turn(run, draw(st.sampled_from(["Yes.", "No.", "Well."])))
        made.append(in_new_epoch(run) if draw(st.booleans()) else run)
    return made


def test_whatever_is_deleted_the_others_stay_whole_and_nothing_is_left_over() -> None:
    names = map("run {}".format, itertools.count())
    with open_journal("sqlite://") as journal:

        @given(forests(), st.permutations(["ann", "bob", "cy"]))
        @settings(max_examples=25)
        def check(forest: list[SavedRun], users: list[str]) -> None:
            named = [
                replace(run, run_id=name, session=name)
                for run, name in zip(forest, names, strict=False)
            ]
            asyncio.run(_check(journal, named, users))

        check()


async def _check(journal: SqlJournal, forest: list[SavedRun], users: list[str]) -> None:
    for run in forest:
        await journal.save(run)
    for index, user in enumerate(users):
        await journal.delete(user=user)
        assert await journal._worker.write(sweep) == 0
        for run in forest:
            left = () if run.user in users[: index + 1] else (run,)
            assert await journal.load(run.run_id) == left
    assert await _rows(journal) == [0] * len(_TABLES)


async def test_all_of_a_users_conversation_is_the_users_and_is_exported_and_deleted() -> None:
    """Who goes on with it need not say so, and nobody else can: not by session, nor by context."""
    with open_journal("sqlite://") as journal:
        agent = Agent(name="c", model=FunctionModel(lambda *_: "Yes."), journal=journal)
        first = await agent.run("I am Ann.", session="s", user="ann")
        await agent.run("Go on.", session="s")
        await agent.run("Also.", context=first.context)
        elsewhere = Agent(name="c", model=FunctionModel(lambda *_: "Yes."), journal=journal)
        await elsewhere.run("And.", context=await journal.fork(elsewhere, first.run_id))
        await elsewhere.run("Hm.", context=await journal.context_at(first.run_id), session="s")
        for of in ({"session": "s"}, {"context": first.context}):
            with pytest.raises(ConfigurationError, match="is of the user 'ann'"):
                await agent.run("I am Bob.", user="bob", **of)  # type: ignore[arg-type]
        await agent.run("I am Bob.", user="bob")
        lines = await journal.export(user="ann")
        assert lines.count(b'"kind":"run"') == 5
        assert b"Bob" not in lines
        with pytest.raises(JournalError, match="no user 'cy'"):
            await journal.export(user="cy")
        assert await journal.delete(user="ann") == 5
        assert [row.user for row in await journal.runs()] == ["bob"]
