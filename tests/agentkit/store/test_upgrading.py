"""A database of an older version is brought up to date when it is opened, once, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, insert, inspect, select, text, update

from agentkit.journal import JournalError
from agentkit.store import SqlJournal, open_journal
from agentkit.store.engine import engine_of
from agentkit.store.schema import VERSION, metadata, runs, steps, version
from tests.agentkit.store.made import after_turn, begun, below, in_new_epoch
from tests.agentkit.store.version_1 import TABLES

RUN = begun("r", session="s", user="ann")
CHILD = below(RUN, "child")
LATER = after_turn(after_turn(RUN))
NEW = {runs.name: {"seen_at", "n_adopted"}, steps.name: {"back"}}


@pytest.fixture
def old(url: str) -> str:
    """The URL of a database that version 1 has made and filled."""
    with open_journal("sqlite://") as journal:
        asyncio.run(_fill(journal))
        rows = asyncio.run(journal._worker.read(_rows))
    engine = engine_of(url, 1.0)
    with engine.begin() as connection:
        for statement in TABLES[engine.dialect.name].split(";")[:-1]:
            connection.execute(text(statement))
        for table in metadata.sorted_tables:
            if rows[table.name]:
                connection.execute(insert(table), rows[table.name])
        connection.execute(update(version).values(version=1))
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT setval('agentkit_runs_id_seq', 100)"))
    engine.dispose()
    return url


async def _fill(journal: SqlJournal) -> None:
    for run in (RUN, after_turn(RUN), CHILD, LATER):
        await journal.save(run)


def _rows(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for table in metadata.sorted_tables:
        rows = connection.execute(select(table)).mappings().all()
        new = NEW.get(table.name, set())
        found[table.name] = [{key: row[key] for key in row if key not in new} for row in rows]
    return found


def _shape(engine: Engine) -> dict[str, Any]:
    """What tables consist of; defaults in the words of the database."""
    seen = inspect(engine)
    return {
        name: (
            {
                each["name"]: (str(each["type"]), each["nullable"], _plain(each["default"]))
                for each in seen.get_columns(name)
            },
            {str(each["name"]): each["column_names"] for each in seen.get_indexes(name)},
            sorted(str(each["constrained_columns"]) for each in seen.get_foreign_keys(name)),
        )
        for name in seen.get_table_names()
    }


def _plain(default: str | None) -> str | None:
    return default and default.strip("'").removesuffix("'::double precision")


async def test_what_version_1_has_kept_is_there_and_goes_on(old: str) -> None:
    with open_journal(old) as journal:
        assert await journal.load("r") == (LATER, CHILD)
        (taken, _) = await journal.claim("r")
        later = in_new_epoch(after_turn(taken))
        await journal.save(later)
        await journal.save(begun("new"))
        assert [row.run_id for row in await journal.runs()] == ["new", "r"]
        assert await journal.load("r") == (later, CHILD)


def test_an_upgraded_database_has_the_tables_of_a_new_one(old: str) -> None:
    with open_journal(old) as journal:
        upgraded = _shape(journal._worker.engine)
    again = open_journal(old)  # nothing is left to do
    again.close()
    engine = engine_of(old, 1.0)
    with engine.begin() as connection:
        metadata.drop_all(connection)
    engine.dispose()
    with open_journal(old) as journal:
        assert upgraded == _shape(journal._worker.engine)


async def test_of_several_who_open_it_at_once_one_upgrades_it(old: str) -> None:
    """Each step adds columns, which fails where they are there already."""
    opened = await asyncio.gather(*(asyncio.to_thread(open_journal, old) for _ in range(4)))
    for journal in opened:
        assert await journal.load("r") == (LATER, CHILD)
        found = await journal._worker.read(lambda c: c.execute(select(version)).scalars().all())
        assert found == [VERSION]
        journal.close()


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(old: str) -> None:
    engine = engine_of(old, 1.0)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE agentkit_runs ADD COLUMN n_adopted INTEGER"))
    before = _shape(engine)
    with pytest.raises(JournalError, match="n_adopted"):
        open_journal(old)
    assert _shape(engine) == before
    with engine.begin() as connection:
        assert connection.execute(select(version)).scalars().all() == [1]
    engine.dispose()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (99, "have version 99, which a newer version of agentkit has made"),
        (0, "version 0, which no version of agentkit has made"),
    ],
)
def test_a_version_that_is_not_known_is_refused(url: str, found: int, message: str) -> None:
    with open_journal(url) as journal:
        asyncio.run(
            journal._worker.write(lambda c: c.execute(update(version).values(version=found)))
        )
    with pytest.raises(JournalError, match=message):
        open_journal(url)
