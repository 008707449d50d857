"""What fails says so, harms nothing else, and leaves what was kept as it was."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, delete, func, select, update

from agentkit import Agent
from agentkit.blocks import UserMessage
from agentkit.context import Segment
from agentkit.errors import ConfigurationError
from agentkit.journal import Journal, JournalError
from agentkit.store import SqlJournal, open_journal
from agentkit.store.schema import chain, segments, steps
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.store.made import after_turn, begun


def test_it_is_a_journal(journal: SqlJournal, url: str) -> None:
    assert isinstance(journal, Journal)
    assert url.partition(":")[0] in repr(journal)


async def test_a_database_that_stays_locked_is_an_error_and_then_goes_on(folder: Path) -> None:
    path = folder / "runs.db"
    with open_journal(path, timeout_s=0.05) as journal:
        run = begun()
        await journal.save(run)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="database is locked"):
            await journal.save(after_turn(run))
        assert await journal.load("r") == (run,)  # who only reads does not wait
        other.execute("ROLLBACK")
        other.close()
        await journal.save(after_turn(run))
        assert await journal.load("r") == (after_turn(run),)


async def test_postgresql_waits_for_a_lock_as_long_as_it_may(postgres_url: str) -> None:
    with open_journal(postgres_url, timeout_s=0.05) as journal:
        run = begun()
        await journal.save(run)
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE agentkit_runs")
            with pytest.raises(JournalError, match="lock timeout"):
                await journal.save(after_turn(run))
        await journal.save(after_turn(run))
        assert await journal.load("r") == (after_turn(run),)


async def test_a_full_disk_ends_the_run_and_it_is_resumed_when_there_is_room(folder: Path) -> None:
    """SQLite's own limit on pages: the driver says what it says when the disk is full."""
    model = ScriptedModel([[Call("echo", {"text": str(i)})] for i in range(3)] + ["Done."])

    def echo(text: str) -> str:
        """Say it again."""
        return text * 20_000

    with open_journal(folder / "runs.db") as journal:
        agent = Agent(
            name="a", instructions="You echo.", tools=[echo], model=model, journal=journal
        )
        await _pragma(journal, "max_page_count = 40")
        with pytest.raises(JournalError, match="disk is full"):
            await agent.run("go", run_id="r")
        (kept,) = await journal.load("r")
        assert kept.status == "running"
        await _pragma(journal, "max_page_count = 100000")
        result = await agent.resume("r")
        assert result.output == "Done."
        assert result.context.starts_with(kept.context)


async def _pragma(journal: SqlJournal, what: str) -> None:
    await journal._worker.outside(lambda c: c.exec_driver_sql(f"PRAGMA {what}").close())


async def test_a_lost_connection_is_made_again(postgres_url: str) -> None:
    with open_journal(postgres_url) as journal:
        run = begun()
        await journal.save(run)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await journal.save(after_turn(run))
        assert await journal.load("r") == (after_turn(run),)


async def test_one_bad_save_does_not_harm_those_that_share_its_transaction(
    journal: SqlJournal,
) -> None:
    await journal.save(begun("a", session="s"))
    good = [begun(f"good {i}") for i in range(10)]
    bad = begun("b", session="s")
    saves = [journal.save(run) for run in (*good[:5], bad, *good[5:])]
    errors = await asyncio.gather(*saves, return_exceptions=True)
    assert [type(error) for error in errors] == [type(None)] * 5 + [JournalError] + [type(None)] * 5
    for run in good:
        assert await journal.load(run.run_id) == (run,)


async def test_a_save_that_is_cancelled_is_kept_and_the_next_goes_on_from_it(
    journal: SqlJournal,
) -> None:
    run = begun()
    saving = asyncio.create_task(journal.save(run))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.wait([saving])
    assert saving.cancelled()
    await journal.save(after_turn(run))
    assert await journal.load("r") == (after_turn(run),)
    assert len(await journal.steps("r")) == 2


_DAMAGE: dict[str, tuple[Callable[[Connection], object], str]] = {
    "a step that is no JSON": (
        lambda c: c.execute(update(steps).where(steps.c.number == 1).values(data="{")),
        "step 1: JSONDecodeError",
    ),
    "a step without what it must have": (
        lambda c: c.execute(update(steps).where(steps.c.number == 1).values(data="{}")),
        "step 1: KeyError",
    ),
    "a field of another type": (
        lambda c: c.execute(
            update(steps)
            .where(steps.c.number == 1)
            .values(data=func.replace(steps.c.data, '"turn":1', '"turn":"x"'))
        ),
        "'x' is no int",
    ),
    "a step that is gone": (
        lambda c: c.execute(delete(steps).where(steps.c.number == 1)),
        "steps are missing",
    ),
    "a segment with other bytes": (
        lambda c: c.execute(
            update(segments)
            .where(segments.c.digest == Segment(UserMessage.of("Add.")).digest)
            .values(data=b'{"tier":"system","part":"rules","text":"Lie."}')
        ),
        "the segment's bytes are not canonical",
    ),
    "a context with another segment": (
        lambda c: c.execute(
            update(chain)
            .where(chain.c.depth == 4)
            .values(segment=select(chain.c.segment).where(chain.c.depth == 5).scalar_subquery())
        ),
        "is not complete, or was changed",
    ),
}


@pytest.mark.parametrize("what", _DAMAGE)
async def test_damage_is_told_and_other_runs_are_not_touched_by_it(
    journal: SqlJournal, what: str
) -> None:
    run = after_turn(begun(session="s"))
    other = begun("other")
    for each in (begun(session="s"), run):
        await journal.save(each)
    damage, message = _DAMAGE[what]
    await journal._worker.write(damage)
    for reading in (journal.load("r"), journal.claim("r"), journal.latest("s", "adder")):
        with pytest.raises(JournalError, match=f"run 'r' is damaged: .*{message}"):
            await reading
    if "segment" not in what:
        await journal.save(other)
        assert await journal.load("other") == (other,)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("mysql://host/runs", "not in 'mysql'"),
        ("sqlite:/runs.db://x", "is no URL"),
        ("", "must not be empty"),
    ],
)
def test_other_databases_are_refused_when_they_are_named(place: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        open_journal(place)


def test_a_database_that_cannot_be_reached_is_told_without_its_password(folder: Path) -> None:
    with pytest.raises(JournalError, match="failed: unable to open") as caught:
        open_journal(folder / "no such folder" / "runs.db")
    with pytest.raises(JournalError, match="failed: ") as caught:
        open_journal(f"postgresql://ann:secret@/x?host={folder}")
    assert "secret" not in str(caught.value)


async def test_a_closed_journal_says_so(url: str) -> None:
    journal = open_journal(url)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        await journal.save(begun())
    with pytest.raises(JournalError, match="is closed"):
        await journal.runs()


async def test_whoever_opens_a_new_database_first_makes_its_tables(url: str) -> None:
    opened = await asyncio.gather(*(asyncio.to_thread(open_journal, url) for _ in range(4)))
    for index, journal in enumerate(opened):
        await journal.save(begun(f"{index}"))
    assert len(await opened[0].runs()) == 4
    for journal in opened:
        journal.close()


async def test_steps_that_were_acknowledged_are_on_the_disk(folder: Path) -> None:
    with open_journal(folder / "runs.db") as journal:
        settings = await journal._worker.read(
            lambda c: [
                c.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys")
            ]
        )
    assert settings == ["wal", 2, 1]


async def test_text_that_postgresql_cannot_hold_is_shown_without_it(journal: SqlJournal) -> None:
    run = replace(begun(), prompt="a\0b")
    await journal.save(run)
    assert await journal.load("r") == (run,)
    (row,) = await journal.runs()
    assert row.task == "a\N{REPLACEMENT CHARACTER}b"
