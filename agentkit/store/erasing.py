"""Deleting runs, and what only they needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, exists, select, text, union
from sqlalchemy import delete as delete_from

from agentkit.errors import ConfigurationError
from agentkit.journal import JournalError
from agentkit.store.engine import name_of
from agentkit.store.schema import chain, kept, metadata, runs, segments, steps

_MANY = 500
"""Values in one statement."""


def wanted(**given: str | None) -> Mapping[str, str]:
    """Return the one condition that is given.

    Raises:
        ConfigurationError: there is none, or several.
    """
    found = {name: value for name, value in given.items() if value is not None}
    if len(found) != 1:
        raise ConfigurationError(f"delete needs exactly one of {list(given)!r}, got {found!r}")
    return found


def delete(connection: Connection, by: Mapping[str, str]) -> tuple[str, ...]:
    """Delete runs, those below them, and what nobody else needs; return the ids of the runs."""
    _keep_savers_out(connection)
    top = select(runs.c.id, runs.c.run_id).where(*(runs.c[key] == each for key, each in by.items()))
    every = top.cte("every", recursive=True)
    below = select(runs.c.id, runs.c.run_id).join(every, runs.c.parent == every.c.run_id)
    gone = connection.execute(select(every.union(below))).all()
    numbers = [row.id for row in gone]
    heads, texts = set[str](), set[str]()
    for some in _portions(numbers):
        for column in (steps.c.head, steps.c.back):
            of_steps = select(column).where(steps.c.run.in_(some), column.is_not(None))
            heads |= set(connection.execute(of_steps).scalars())
        texts |= set(
            connection.execute(select(kept.c.segment).where(kept.c.run.in_(some))).scalars()
        )
    for table, column in ((steps, steps.c.run), (kept, kept.c.run), (runs, runs.c.id)):
        for some in _portions(numbers):
            connection.execute(delete_from(table).where(column.in_(some)))
    texts |= _delete_links(connection, heads)
    _delete_idle(connection, texts)
    return tuple(row.run_id for row in gone)


def sweep(connection: Connection) -> int:
    """Delete all segments and links that no run needs; return how many segments there were."""
    _keep_savers_out(connection)
    columns = (steps.c.head, steps.c.back)
    heads = (select(each.label("digest")).where(each.is_not(None)) for each in columns)
    used = select(union(*heads).subquery().c.digest).cte("used", recursive=True)
    up = select(chain.c.parent).join(used, chain.c.digest == used.c.digest)
    used = used.union(up.where(chain.c.parent.is_not(None)))
    connection.execute(delete_from(chain).where(chain.c.digest.not_in(select(used.c.digest))))
    done = connection.execute(delete_from(segments).where(*_idle()))
    return int(done.rowcount)


def forget(connection: Connection) -> None:
    """Leave nothing of what was deleted in SQLite's log of changes.

    Raises:
        JournalError: somebody has begun to read before, and is not done; the log must stay.
    """
    if connection.dialect.name != "sqlite":
        return
    is_busy = connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).first()
    if is_busy is not None and is_busy[0]:
        raise JournalError(
            "what was to be deleted is deleted, but its text is still in the files of "
            f"{name_of(connection.engine)}, because somebody reads the database all the time: "
            "call delete or vacuum again when nobody does"
        )


def shrink(connection: Connection) -> None:
    """Give free space back to the disk."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("VACUUM")).close()
        forget(connection)
        return
    names = ", ".join(table.name for table in metadata.sorted_tables)
    connection.execute(text(f"VACUUM {names}"))


def _keep_savers_out(connection: Connection) -> None:
    """Let nobody refer to what is about to go. Whoever saves writes to the table of runs first."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"LOCK TABLE {runs.name} IN SHARE ROW EXCLUSIVE MODE"))
    else:
        # What is deleted is overwritten with zeros. (In SQLite, one writer is alone already.)
        connection.execute(text("PRAGMA secure_delete = ON")).close()


def _delete_links(connection: Connection, heads: set[str]) -> set[str]:
    """Delete the links below the heads that nobody needs; return the segments that they named.

    The longest contexts go first: what still has a longer one, or a step, stays with all before it.
    """
    segments_named = set[str]()
    while heads:
        gone: dict[str, tuple[str | None, str]] = {}
        for some in _portions(sorted(heads)):
            columns = (chain.c.digest, chain.c.parent, chain.c.segment)
            for row in connection.execute(select(*columns).where(*_unused(some))):
                gone[row.digest] = (row.parent, row.segment)
        for some in _portions(list(gone)):
            connection.execute(delete_from(chain).where(chain.c.digest.in_(some)))
        segments_named |= {segment for _, segment in gone.values()}
        heads = {parent for parent, _ in gone.values() if parent is not None}
    return segments_named


def _unused(digests: Sequence[str]) -> tuple[Any, ...]:
    longer = chain.alias("longer")
    return (
        chain.c.digest.in_(digests),
        ~exists().where(longer.c.parent == chain.c.digest),
        ~exists().where(steps.c.head == chain.c.digest),
        ~exists().where(steps.c.back == chain.c.digest),
    )


def _delete_idle(connection: Connection, digests: set[str]) -> None:
    for some in _portions(sorted(digests)):
        connection.execute(delete_from(segments).where(segments.c.digest.in_(some), *_idle()))


def _idle() -> tuple[Any, ...]:
    return (
        ~exists().where(chain.c.segment == segments.c.digest),
        ~exists().where(kept.c.segment == segments.c.digest),
    )


def _portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _MANY] for start in range(0, len(values), _MANY))
