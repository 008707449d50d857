"""The journal that a command uses."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agentkit.cli.failures import fail, say
from agentkit.errors import MissingExtra
from agentkit.journal import Journal, JournalError
from agentkit.saved import SavedRun

if TYPE_CHECKING:
    from agentkit.store import SqlJournal

VARIABLE = "AGENTKIT_JOURNAL"
_NONE = "none"
_MOST_RUNS = 100_000
_LEAST_PREFIX = 4


class _Listed(Protocol):
    @property
    def run_id(self) -> str: ...


@runtime_checkable
class _Lists(Protocol):
    """A journal that can list its runs, as those of `agentkit.store`."""

    async def runs(self, *, limit: int) -> Sequence[_Listed]: ...


@contextlib.contextmanager
def journal_to_write(given: str | None, own: Journal | None) -> Iterator[Journal | None]:
    """Open the journal that runs are kept in; None if none is wanted, or can be had by default.

    Args:
        given: the option's value.
        own: the agent's own, which counts if nothing else is said.

    Raises:
        MissingExtra: one was asked for, and SQLAlchemy is not installed.
        JournalError: it cannot be opened.
    """
    place = given or os.environ.get(VARIABLE)
    if place == _NONE or (place is None and own is not None):
        yield None if place == _NONE else own
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
def journal_to_resume(given: str | None, own: Journal | None) -> Iterator[Journal]:
    """Open the journal that has a run of an agent; by default the agent's own, if it has one.

    Raises:
        MissingExtra, JournalError: as `journal_to_read`.
    """
    if own is not None and not (given or os.environ.get(VARIABLE)):
        yield own
        return
    with journal_to_read(given) as journal:
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

    if place is not None and (missing := _missing_file(place)) is not None:
        fail(f"there is no journal {missing}: nothing was kept there")
    with open_journal(place or default_place()) as journal:
        yield journal


def _missing_file(place: str) -> Path | None:
    """Return the file that a place names, if there is none; to open it would make it."""
    scheme, colon, path = place.partition("://")
    if colon:
        if not scheme.startswith("sqlite"):
            return None
        place = path.removeprefix("/").partition("?")[0]
    if place in ("", ":memory:"):
        return None
    return None if Path(place).exists() else Path(place)


def default_place() -> Path:
    """Return where runs are kept if nothing else is said."""
    import platformdirs

    return Path(platformdirs.user_data_path("agentkit", appauthor=False)) / "runs.db"


async def load_run(journal: Journal, name: str) -> tuple[SavedRun, ...]:
    """Return a run and all below it, by its id or by the beginning of it.

    Raises:
        JournalError: there is no such run, or there are several.
    """
    if found := await journal.load(name):
        return found
    return await journal.load(await _id_of(journal, name))


async def _id_of(journal: Journal, name: str) -> str:
    rows = await journal.runs(limit=_MOST_RUNS) if isinstance(journal, _Lists) else ()
    ids = [row.run_id for row in rows if row.run_id.startswith(name)]
    if len(ids) == 1 and len(name) >= _LEAST_PREFIX:
        return ids[0]
    if len(ids) > 1:
        raise JournalError(f"{len(ids)} runs begin with {name!r}; give more of the id")
    raise JournalError(f"there is no run {name!r} in this journal; `agentkit runs` lists them")
