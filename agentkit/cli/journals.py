"""The journal that a command uses."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentkit.cli.failures import fail, say
from agentkit.errors import MissingExtra
from agentkit.journal import JournalError
from agentkit.saved import SavedRun

if TYPE_CHECKING:
    from agentkit.store import SqlJournal

VARIABLE = "AGENTKIT_JOURNAL"
_NONE = "none"
_MOST_RUNS = 100_000
_LEAST_PREFIX = 4


@contextlib.contextmanager
def journal_to_write(given: str | None) -> Iterator[SqlJournal | None]:
    """Open the journal that runs are kept in; None if none is wanted, or can be had by default.

    Raises:
        MissingExtra: one was asked for, and SQLAlchemy is not installed.
        JournalError: it cannot be opened.
    """
    place = given or os.environ.get(VARIABLE)
    if place == _NONE:
        yield None
        return
    try:
        from agentkit.store import open_journal
    except MissingExtra as error:
        if place is not None:
            raise
        say(f"note: the run is not kept: {error}")
        yield None
        return
    if place is None:
        default_place().parent.mkdir(parents=True, exist_ok=True)
    with open_journal(place or default_place()) as journal:
        yield journal


@contextlib.contextmanager
def journal_to_read(given: str | None) -> Iterator[SqlJournal]:
    """Open the journal that has runs.

    Raises:
        MissingExtra: SQLAlchemy is not installed.
        JournalError: it cannot be opened.
    """
    place = given or os.environ.get(VARIABLE)
    if place == _NONE:
        fail("there are no runs without a journal; leave out --journal none", code=2)
    if place is None and not default_place().exists():
        fail(f"no run was kept yet: there is no {default_place()}; name another with --journal")
    from agentkit.store import open_journal

    with open_journal(place or default_place()) as journal:
        yield journal


def default_place() -> Path:
    """Return where runs are kept if nothing else is said."""
    import platformdirs

    return Path(platformdirs.user_data_path("agentkit", appauthor=False)) / "runs.db"


async def load_run(journal: SqlJournal, name: str) -> tuple[SavedRun, ...]:
    """Return a run and all below it, by its id or by the beginning of it.

    Raises:
        JournalError: there is no such run, or there are several.
    """
    if found := await journal.load(name):
        return found
    return await journal.load(await _id_of(journal, name))


async def run_id_of(journal: SqlJournal, name: str) -> str:
    """Return the id of a root run, given whole or its beginning.

    Raises:
        JournalError: there is no such run, or there are several.
    """
    return (await load_run(journal, name))[0].run_id


async def _id_of(journal: SqlJournal, name: str) -> str:
    rows = await journal.runs(limit=_MOST_RUNS)
    ids = [row.run_id for row in rows if row.run_id.startswith(name)]
    if len(ids) == 1 and len(name) >= _LEAST_PREFIX:
        return ids[0]
    if len(ids) > 1:
        raise JournalError(f"{len(ids)} runs begin with {name!r}; give more of the id")
    raise JournalError(f"there is no run {name!r} in this journal; `agentkit runs` lists them")
