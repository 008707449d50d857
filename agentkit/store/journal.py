"""The journal in a database."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from agentkit.context import Context
from agentkit.journal import Check
from agentkit.saved import SavedRun
from agentkit.store import claiming, erasing, leases, listing, moving, reading, upgrading
from agentkit.store.engine import engine_of, name_of
from agentkit.store.listing import RunRow, StepRow
from agentkit.store.schema import runs
from agentkit.store.worker import Worker

if TYPE_CHECKING:
    from agentkit.agent import Agent


def open_journal(place: str | Path, *, timeout_s: float = 10.0) -> SqlJournal:
    """Open a journal; make its tables if the database is new, and bring older ones up to date.

    Args:
        place: the path of a SQLite file, `sqlite:///runs.db`, or `postgresql://user@host/name`.
        timeout_s: how long to wait for a database that other processes write to.

    Raises:
        JournalError: the database cannot be reached, or a newer version of agentkit made it.
        ConfigurationError: `place` is no such URL.
    """
    journal = SqlJournal(Worker(engine_of(place, timeout_s)))
    try:
        journal.prepare()
    except BaseException:
        journal.close()
        raise
    return journal


class SqlJournal:
    """Keeps runs in SQLite or PostgreSQL. Made by `open_journal`; one serves many runs at once.

    What `save` has returned for is on the disk. Each save is one transaction, which writes what is
    new since the last one; saves that wait at the same time share theirs. Everything is done by one
    thread of its own, so the event loop never waits for the database.

    A run belongs to whoever began or claimed it last, see `SavedRun.claim`: other saves of it fail.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._leases = leases.Leases(self._renew)

    def prepare(self) -> None:
        """Make the tables if there are none, and bring older ones up to date.

        Raises:
            JournalError: there are those of a newer version, or the database fails.
        """
        where = name_of(self._worker.engine)
        self._worker.write_now(lambda connection: upgrading.prepare(connection, where))

    # The seam to the loop, see `agentkit.journal.Journal`.

    async def save(self, run: SavedRun) -> None:
        """Keep what is new in a run since it was saved last. If cancelled, it is kept nevertheless.

        Raises:
            JournalError: it was not kept: the database failed, somebody else goes on with the
                run, its id is taken, or its session has a run that has not ended.
        """
        await self._worker.save(run)

    async def load(self, run_id: str) -> tuple[SavedRun, ...]:
        """Return a run, and all runs below it, the run itself first; none if it is unknown.

        Raises:
            JournalError: what was kept of it is damaged, or the database fails.
        """
        return await self._worker.read(lambda connection: reading.read_tree(connection, run_id))

    async def claim(self, run_id: str, check: Check | None = None) -> tuple[SavedRun, ...]:
        """Like `load`, to go on with it: saves by whoever ran it before fail from now on.

        Args:
            run_id: the run.
            check: called with what would be returned, in the same transaction. What it raises is
                raised, and whoever has the run keeps it.

        Raises:
            JournalError: the run is unknown or damaged, or the database fails.
        """
        return await self._worker.write(lambda c: self._claim(c, run_id, check))

    async def latest(self, session: str, agent: str) -> SavedRun | None:
        """Return the last root run of a session.

        Raises:
            JournalError: it is damaged, or the database fails.
        """
        query = (
            select(runs)
            .where(runs.c.session == session, runs.c.agent == agent, runs.c.parent.is_(None))
            .order_by(runs.c.id.desc())
            .limit(1)
        )

        def read(connection: Any) -> SavedRun | None:
            row = connection.execute(query).mappings().first()
            return None if row is None else reading.read_run(connection, row)

        return await self._worker.read(read)

    def held(self, run_id: str, claim: str) -> AbstractContextManager[None]:
        """Say of a run that it goes on, until this is left, also where it saves nothing for long.

        Args:
            run_id: the run's.
            claim: by which it is saved. Once somebody else has claimed it, nothing is said.
        """
        return self._leases.held(run_id, claim)

    # Time travel.

    async def context_at(self, run_id: str, turn: int | None = None) -> Context:
        """Return a run's conversation as it was when a turn began, for `run(..., context=...)`.

        Args:
            run_id: the run.
            turn: 0 is before the first answer; None is as it is now.

        Raises:
            JournalError: there is no such run or turn, or it is damaged.
        """
        point = await self._worker.read(lambda c: reading.read_point(c, run_id, turn))
        return point[0]

    async def fork(self, agent: Agent[Any, Any], run_id: str, turn: int | None = None) -> Context:
        """Like `context_at`, and the agent remembers what the conversation itself does not say.

        That is: which version of its documents it was told, how long it is, the tool results that
        it shows in part, and who goes on with it after a handoff.

        Raises:
            JournalError: there is no such run or turn, or it is damaged.
        """
        context, memory = await self._worker.read(lambda c: reading.read_point(c, run_id, turn))
        agent.remember(context, memory)
        return context

    # What an operator does.

    async def runs(
        self,
        *,
        session: str | None = None,
        user: str | None = None,
        status: str | None = None,
        limit: int = 50,
    ) -> tuple[RunRow, ...]:
        """Return the latest root runs, the newest first, with what their whole trees came to.

        Raises:
            JournalError: the database fails.
        """
        wanted = {"session": session, "user": user, "status": status}
        return await self._worker.read(lambda c: listing.list_runs(c, wanted, limit))

    async def orphans(
        self,
        *,
        older_than_s: float = claiming.SILENT_S,
        agent: str | None = None,
        limit: int = 50,
    ) -> tuple[RunRow, ...]:
        """Return root runs that have not ended, and whose process seems to be gone; oldest first.

        A run that goes on says so several times a minute, also while it waits in a call. Those that
        wait for a person are none of these.

        Args:
            older_than_s: for how many seconds nothing was heard of them. The clocks of machines
                may differ by less than that.
            agent: the name of who began them; None: whoever did.
            limit: how many at most.

        Raises:
            JournalError: the database fails.
            ConfigurationError: `older_than_s` is so short that living runs would be among them.
        """
        age_s = claiming.checked_age(older_than_s)
        silent = claiming.are_orphans(time.time(), age_s)
        wanted, order = {"agent": agent}, runs.c.began_at
        return await self._worker.read(
            lambda c: listing.list_runs(c, wanted, limit, *silent, order=order)
        )

    async def adopt(self, run_id: str, *, older_than_s: float = claiming.SILENT_S) -> bool:
        """Take an orphan from the process that had it, to resume it then; of several, one gets it.

        Args:
            run_id: the run, as `orphans` lists it.
            older_than_s: as for `orphans`.

        Returns:
            Whether it is the caller's. False: somebody else has taken it, it goes on after all,
            has ended, or is no root run. If the caller does not resume it, it is an orphan again
            after that time.

        Raises:
            JournalError: the database fails.
            ConfigurationError: as `orphans`.
        """
        age_s = claiming.checked_age(older_than_s)
        return await self._worker.write(lambda c: claiming.adopt(c, run_id, time.time(), age_s))

    async def steps(self, run_id: str) -> tuple[StepRow, ...]:
        """Return when a run made each of its steps, oldest first; none if it is unknown.

        Raises:
            JournalError: the database fails.
        """
        return await self._worker.read(lambda c: listing.list_steps(c, run_id))

    async def export(
        self, *, run_id: str | None = None, session: str | None = None, user: str | None = None
    ) -> bytes:
        """Return a run with all below it, or the runs of a session or user, or all, as JSON Lines.

        Raises:
            JournalError: there are no such runs, or the database fails.
        """
        wanted = {"run_id": run_id, "session": session, "user": user}
        return await self._worker.read(lambda c: moving.export(c, wanted))

    async def import_(self, lines: bytes) -> int:
        """Add what was exported; returns the number of runs that are new or have grown.

        What is there already stays as it is, so this may be repeated.

        Raises:
            JournalError: the lines are damaged, a run differs from the one that is there, or the
                database fails. Then nothing was added.
        """
        return await self._worker.write(lambda c: moving.import_(c, lines))

    async def delete(
        self, *, user: str | None = None, session: str | None = None, run_id: str | None = None
    ) -> int:
        """Delete runs and all that only they need, at once or not at all; returns their number.

        Exactly one of `user`, `session` and `run_id` is given. Runs below go with theirs above. A
        process that is at one of these runs fails at its next step.

        Raises:
            JournalError: the database fails; or the runs are deleted, but somebody reads, so that
                SQLite's files have their text still.
            ConfigurationError: none is given, or several are.
        """
        wanted = erasing.wanted(user=user, session=session, run_id=run_id)
        n_runs = await self._worker.write(lambda c: self._delete(c, wanted))
        await self._worker.outside(erasing.forget)
        return n_runs

    async def vacuum(self) -> int:
        """Give the space of what was deleted back to the disk; returns how many segments were idle.

        Raises:
            JournalError: the database fails, or other processes write to it for too long.
        """
        n_segments = await self._worker.write(erasing.sweep)
        await self._worker.outside(erasing.shrink)
        return n_segments

    def close(self) -> None:
        """Wait until everything is kept, and close the connections. Idempotent."""
        self._leases.close()
        self._worker.close()

    def __enter__(self) -> SqlJournal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SqlJournal {name_of(self._worker.engine)}>"

    def _claim(self, connection: Any, run_id: str, check: Check | None) -> tuple[SavedRun, ...]:
        known = claiming.claim(connection, run_id, time.time(), check)
        self._worker.latest.claimed(known)
        return tuple(each.run for each in known.values())

    def _renew(self, held: list[leases.Lease]) -> None:
        every_s = leases.RENEWED_EVERY_S
        # The time of the write, which may have waited long for others.
        self._worker.write_now(lambda c: leases.renew(c, held, time.time(), every_s))

    def _delete(self, connection: Any, wanted: Mapping[str, str]) -> int:
        gone = erasing.delete(connection, wanted)
        self._worker.latest.forget(gone)
        return len(gone)
