"""One save: what it writes, and whether it may."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import Insert

from agentkit.journal import JournalError
from agentkit.saved import SavedRun
from agentkit.store.deltas import Step, first_step, kept_digest, next_step
from agentkit.store.reading import read_run
from agentkit.store.schema import chain, kept, runs, segments, steps
from agentkit.store.sums import Sums

_REMEMBERED = 1_024
"""Runs that go on, and whose last value is kept in memory, so that a save need not read it."""
_TASK_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A run as it was saved last."""

    id: int
    n_steps: int
    run: SavedRun
    sums: Sums


class Latest:
    """The last values of the runs that go on, by run id. Those that rest are read again."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def get(self, run_id: str) -> Known | None:
        """Return a run's last value, if it is known."""
        return self._known.get(run_id)

    def put(self, known: Mapping[str, Known]) -> None:
        """Keep the values that were saved; of runs that rest now, none."""
        for run_id in known:
            self._known.pop(run_id, None)
        self.claimed({key: each for key, each in known.items() if each.run.status == "running"})

    def forget(self, run_ids: Iterable[str]) -> None:
        """Keep nothing of runs that were deleted."""
        for run_id in run_ids:
            self._known.pop(run_id, None)

    def claimed(self, known: Mapping[str, Known]) -> None:
        """Keep the values of runs that are about to go on."""
        for run_id, each in known.items():
            self._known[run_id] = each
            self._known.move_to_end(run_id)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._known)


def save_run(connection: Connection, run: SavedRun, known: Known | None) -> Known:
    """Write what is new in a run, and return it as the last value.

    Args:
        connection: in a transaction that may write.
        run: the run after a step; its `claim` says whether it may be saved.
        known: its last value, where that is in memory.

    Raises:
        JournalError: the run is somebody else's now, or cannot begin.
    """
    if known is None or known.run.claim != run.claim:  # else it is of who had the run before
        known = _begun(connection, run)
    step = next_step(run, known.run) if known.n_steps else first_step(run)
    if step is None:
        if run.claim != known.run.claim and _is_under_way(run):
            raise _lost(run.run_id)
        if run.parent is None:
            raise JournalError(
                f"run {run.run_id!r} is in the journal already, and this is not how it went on: "
                "another run goes on with it, or has its id. Resume it with "
                f"agent.resume({run.run_id!r}), or give a new run_id"
            )
        step = first_step(run)  # its agent has changed, so it was begun again
    sums = (Sums() if step.kind == "begin" else known.sums).plus(step.requests)
    now = time.time()
    _count_step(connection, run, known, sums, now)
    write_step(connection, known.id, known.n_steps, step, now)
    return Known(id=known.id, n_steps=known.n_steps + 1, run=run, sums=sums)


def _begun(connection: Connection, run: SavedRun) -> Known:
    """Return the last value of a run that is not in memory; a row is made for a new one."""
    row = connection.execute(select(runs).where(runs.c.run_id == run.run_id)).mappings().first()
    if row is not None:
        saved = read_run(connection, row)
        return Known(id=row["id"], n_steps=row["n_steps"], run=saved, sums=Sums.of_row(row))
    if run.claim and _is_under_way(run):
        raise _lost(run.run_id)  # it was begun here, and deleted
    now, root = time.time(), run.run_id if run.parent is None else _root(connection, run)
    values = {
        "run_id": run.run_id,
        "parent": run.parent,
        "root": root,
        "session": run.session,
        "user": run.user,
        "tenant": run.tenant,
        "agent": run.agent,
        "task": _shown(run.prompt),
        "status": run.status,
        "turn": run.turn,
        "began_at": run.began_at,
        "saved_at": now,
        "total_s": run.total_s,
        "n_requests": 0,
        **Sums().columns,
        "n_steps": 0,
        "owner": run.claim,
    }
    made = connection.execute(insert_new(connection, runs).values(values).returning(runs.c.id))
    if (number := made.scalar()) is None:
        raise _not_begun(connection, run)
    return Known(id=number, n_steps=0, run=run, sums=Sums())


def _is_under_way(run: SavedRun) -> bool:
    """Whether it has had a step before this one."""
    return run.status != "running" or run.open_turn is not None or bool(run.requests)


def _root(connection: Connection, run: SavedRun) -> str:
    """Return the root of the run's tree, whose owner does not change meanwhile."""
    above = select(runs.c.root, runs.c.owner).where(runs.c.run_id == run.parent)
    row = connection.execute(above.with_for_update(read=True)).first()
    if row is None:
        raise JournalError(f"run {run.parent!r}, which began this one, is not in the journal")
    if row.owner != run.claim:
        raise _lost(str(run.parent))
    return str(row.root)


def _not_begun(connection: Connection, run: SavedRun) -> JournalError:
    busy = select(runs.c.run_id, runs.c.status).where(
        runs.c.session == run.session,
        runs.c.agent == run.agent,
        runs.c.parent.is_(None),
        runs.c.status.in_(("running", "paused")),
    )
    row = connection.execute(busy).first()
    if row is None or row.run_id == run.run_id:
        return JournalError(f"the run id {run.run_id!r} is taken: give another one")
    return JournalError(
        f"the session {run.session!r} has the run {row.run_id!r}, which is {row.status}: "
        f"a conversation goes on with one run at a time; first resume it with "
        f"agent.resume({row.run_id!r})"
    )


def _count_step(
    connection: Connection, run: SavedRun, known: Known, sums: Sums, now: float
) -> None:
    values = {
        "is_row": known.id,
        "is_run": run.run_id,
        "is_owner": run.claim,
        "is_step": known.n_steps,
        "status": run.status,
        "turn": run.turn,
        "began_at": run.began_at,
        "task": _shown(run.prompt),
        "saved_at": now,
        "total_s": run.total_s,
        "n_requests": len(run.requests),
        "n_steps": known.n_steps + 1,
        **sums.columns,
    }
    try:
        done = connection.execute(_COUNT, values)
    except IntegrityError:
        raise JournalError(
            f"run {run.run_id!r} cannot go on: a later run of the session {run.session!r} is "
            "going on already"
        ) from None
    if done.rowcount != 1:
        raise _lost(run.run_id)


def _shown(task: str) -> str:
    """The beginning of a task. PostgreSQL's text cannot hold NUL."""
    return task[:_TASK_SHOWN].replace("\0", "\N{REPLACEMENT CHARACTER}")


def _lost(run_id: str) -> JournalError:
    return JournalError(
        f"run {run_id!r} is no longer ours: somebody else goes on with it, or it was deleted. "
        "It ends here; nothing that was saved is lost"
    )


def write_step(connection: Connection, run: int, number: int, step: Step, now: float) -> None:
    """Write a step, and the segments that are new with it."""
    kept_rows = [(handle, kept_digest(text), text) for handle, text in step.kept.items()]
    data = {row.segment.digest: row.segment.data for row in step.rows}
    data |= {key: text.encode() for _, key, text in kept_rows}
    _insert_many(
        connection, segments, [{"digest": key, "data": value} for key, value in data.items()]
    )
    links = [
        {
            "digest": row.digest,
            "parent": row.parent,
            "segment": row.segment.digest,
            "depth": row.depth,
        }
        for row in step.rows
    ]
    _insert_many(connection, chain, links)
    handles = [{"run": run, "handle": handle, "segment": key} for handle, key, _ in kept_rows]
    _insert_many(connection, kept, handles)
    values = {
        "run": run,
        "number": number,
        "kind": step.kind,
        "turn": step.turn,
        "saved_at": now,
        "head": step.head,
        "data": step.data,
        "back": step.back,
    }
    connection.execute(_ADD, values)


def _insert_many(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert_new(connection, table), rows)


def insert_new(connection: Connection, table: Table) -> Insert:
    """Return the statement that inserts rows, and leaves alone those that are there."""
    return _insert_new(connection.dialect.name, table)


@functools.cache
def _insert_new(dialect: str, table: Table) -> Insert:
    if dialect == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()


# Made once: to put a statement together takes longer than to run it.
_ADD = insert(steps)
_COUNT = update(runs).where(
    runs.c.id == bindparam("is_row"),
    # A row that was deleted leaves its number to another run.
    runs.c.run_id == bindparam("is_run"),
    runs.c.owner == bindparam("is_owner"),
    runs.c.n_steps == bindparam("is_step"),
)
