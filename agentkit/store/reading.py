"""Runs and contexts from their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, RowMapping, select

from agentkit.context import Context, Segment
from agentkit.errors import ContextError, FormatError
from agentkit.journal import JournalError
from agentkit.saved import Memory, SavedRun
from agentkit.store.deltas import Folded
from agentkit.store.schema import chain, kept, runs, segments, steps

_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def read_tree(connection: Connection, run_id: str) -> tuple[SavedRun, ...]:
    """Return a run and all runs below it, itself first; none if it is unknown.

    Raises:
        JournalError: what was kept of one is damaged.
    """
    segments_read: dict[str, Segment] = {}
    rows = tree_rows(connection, run_id)
    return tuple(read_run(connection, row, segments_read) for row in rows)


def tree_rows(connection: Connection, run_id: str) -> list[RowMapping]:
    """Return the rows of a run and of all runs below it, itself first, then in order of begin."""
    root = select(runs.c.root).where(runs.c.run_id == run_id).scalar_subquery()
    every = select(runs).where(runs.c.root == root).order_by(runs.c.id)
    below: dict[str | None, list[RowMapping]] = {}
    top: list[RowMapping] = []
    for row in connection.execute(every).mappings():
        below.setdefault(row["parent"], []).append(row)
        if row["run_id"] == run_id:
            top.append(row)
    return list(_walk(top, below))


def _walk(
    rows: Sequence[RowMapping], below: Mapping[str | None, list[RowMapping]]
) -> Iterator[RowMapping]:
    for row in rows:
        yield row
        yield from _walk(below.get(row["run_id"], []), below)


def read_run(
    connection: Connection, row: RowMapping, segments_read: dict[str, Segment] | None = None
) -> SavedRun:
    """Return the run of a row of `runs`.

    Raises:
        JournalError: a step or a segment of it is damaged.
    """
    folded = read_steps(connection, row)
    try:
        context = read_context(connection, folded.head, segments_read)
        back = Context()
        if folded.back is not None:
            back = read_context(connection, folded.back, segments_read)
        return folded.run(context, back, _kept(connection, row["id"]), row["owner"])
    except (ContextError, FormatError, *_DAMAGE) as error:
        raise _damaged(row, error) from error


def read_point(connection: Connection, run_id: str, turn: int | None) -> tuple[Context, Memory]:
    """Return a conversation as it was when a turn began; None: as it is now.

    Raises:
        JournalError: there is no such run or turn, or what was kept is damaged.
    """
    row = connection.execute(select(runs).where(runs.c.run_id == run_id)).mappings().first()
    if row is None:
        raise unknown(run_id)
    folded = read_steps(connection, row, until_turn=turn)
    try:
        context = read_context(connection, folded.head)
        return context, folded.memory(_kept(connection, row["id"]))
    except (ContextError, FormatError, *_DAMAGE) as error:
        raise _damaged(row, error) from error


def read_steps(connection: Connection, row: RowMapping, until_turn: int | None = None) -> Folded:
    """Put the steps of a run together: all, or up to the first of a turn.

    Raises:
        JournalError: one is missing or damaged, or there is no such turn.
    """
    mine = (steps.c.run == row["id"], steps.c.number < row["n_steps"])
    found = connection.execute(select(steps).where(*mine).order_by(steps.c.number)).all()
    if [step.number for step in found] != list(range(row["n_steps"])):
        raise _damaged(row, "steps are missing")
    turns = [step.turn for step in found]
    if until_turn is not None and until_turn not in turns:
        raise JournalError(
            f"run {row['run_id']!r} has no turn {until_turn!r}: it has 0 to {turns[-1]!r}"
        )
    n_steps = len(found) if until_turn is None else turns.index(until_turn) + 1
    folded = Folded()
    for step in found[:n_steps]:
        try:
            folded.add(step.kind, step.head, step.data, step.back)
        except _DAMAGE as error:
            raise _damaged(row, f"step {step.number}: {error!r}") from error
    return folded


def read_context(
    connection: Connection, head: str | None, segments_read: dict[str, Segment] | None = None
) -> Context:
    """Return the context that a digest names.

    Raises:
        ContextError: a segment of it is missing or damaged.
    """
    known = {} if segments_read is None else segments_read
    contents = []
    for digest, data in _links(connection, head):
        if digest not in known:
            known[digest] = Segment.from_data(data)
        contents.append(known[digest].content)
    context = Context(*contents)
    if head is not None and context.digest != head:
        raise ContextError(f"the context {head[:15]}... is not complete, or was changed")
    return context


def _links(connection: Connection, head: str | None) -> list[tuple[str, bytes]]:
    first = select(chain.c.parent, chain.c.segment, chain.c.depth).where(chain.c.digest == head)
    up = first.cte("up", recursive=True)
    more = select(chain.c.parent, chain.c.segment, chain.c.depth)
    up = up.union_all(more.join(up, chain.c.digest == up.c.parent))
    query = select(segments.c.digest, segments.c.data).join(up, segments.c.digest == up.c.segment)
    rows = connection.execute(query.order_by(up.c.depth)).all()
    return [(row.digest, bytes(row.data)) for row in rows]


def _kept(connection: Connection, run: int) -> dict[str, str]:
    query = (
        select(kept.c.handle, segments.c.data)
        .join(segments, segments.c.digest == kept.c.segment)
        .where(kept.c.run == run)
    )
    return {row.handle: bytes(row.data).decode() for row in connection.execute(query)}


def unknown(run_id: str) -> JournalError:
    """Return the error for a run that is not there."""
    return JournalError(f"there is no run {run_id!r} in this journal")


def _damaged(row: RowMapping, problem: object) -> JournalError:
    return JournalError(
        f"what was kept of run {row['run_id']!r} is damaged: {problem}. Restore the database from "
        "a backup; runs that are whole can still be exported"
    )
