"""Makes the tables, and brings those of older versions up to date.

Whoever opens a database does it: in one transaction, and alone. What fails leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlalchemy import Connection, func, insert, inspect, select, text, update

from agentkit.journal import JournalError
from agentkit.store.schema import VERSION, metadata, version

_MAKING = 0x6167656E
"""The lock of whoever makes the tables; PostgreSQL has no names for such locks."""


def prepare(connection: Connection, where: str) -> None:
    """Make the tables in a new database, or bring them up to date.

    Args:
        connection: in a transaction that may write.
        where: what messages call the database.

    Raises:
        JournalError: the database has those of a newer version, or something else.
    """
    if _found(connection) != VERSION:
        _wait_for_others(connection)
    found = _found(connection)  # whoever was at it has made them
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(version).values(version=VERSION))
    elif found != VERSION:
        _upgrade(connection, found, where)


def _found(connection: Connection) -> int | None:
    """Return the version of the tables; None: there are none. 0 is none that ever was."""
    if not inspect(connection).has_table(version.name):
        return None
    return connection.execute(select(version.c.version)).scalar() or 0


def _wait_for_others(connection: Connection) -> None:
    """Wait until nobody else makes tables. (SQLite has one writer anyway.)"""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))


def _upgrade(connection: Connection, found: int, where: str) -> None:
    if found > VERSION:
        raise JournalError(
            f"the tables of the database {where} have version {found!r}, which a newer version of "
            f"agentkit has made, and this one knows version {VERSION!r}: use the newer one"
        )
    if found not in _STEPS:
        raise JournalError(
            f"the database {where} says that its tables have version {found!r}, which no version "
            "of agentkit has made: restore it from a backup"
        )
    for each in range(found, VERSION):
        _STEPS[each](connection)
    connection.execute(update(version).values(version=VERSION))


def _add_leases(connection: Connection) -> None:
    """Runs say that they go on, and how often somebody has found them left alone."""
    number = "DOUBLE PRECISION" if connection.dialect.name == "postgresql" else "FLOAT"
    for column in (f"seen_at {number}", "n_adopted INTEGER"):
        connection.execute(
            text(f"ALTER TABLE agentkit_runs ADD COLUMN {column} DEFAULT 0 NOT NULL")
        )


def _add_ways_back(connection: Connection) -> None:
    """Steps name a second context: what a run goes back to if its new epoch is refused."""
    connection.execute(
        text("ALTER TABLE agentkit_steps ADD COLUMN back TEXT REFERENCES agentkit_chain (digest)")
    )
    connection.execute(
        text("CREATE INDEX agentkit_steps_back ON agentkit_steps (back) WHERE back IS NOT NULL")
    )


_Step: TypeAlias = Callable[[Connection], None]

_STEPS: Mapping[int, _Step] = {1: _add_leases, 2: _add_ways_back}
"""What makes the next version of the tables, by the one before. Says names and types itself: the
tables of `schema.py` are those of today."""
