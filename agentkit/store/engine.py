"""Connections: to a file of SQLite, or to a PostgreSQL server."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from agentkit.errors import ConfigurationError
from agentkit.wal import use_wal

MODE = "agentkit_mode"
"""Execution option of connections: `read`, or `outside` of any transaction; else they write."""


def engine_of(place: str | Path, timeout_s: float) -> Engine:
    """Return the engine for a URL, or for the path of a SQLite file.

    Raises:
        ConfigurationError: the URL is of another database, or is none.
    """
    url = _url(place)
    match url.get_backend_name():
        case "sqlite":
            return _sqlite(url, timeout_s)
        case "postgresql":
            return _postgresql(url, timeout_s)
        case other:
            raise ConfigurationError(
                f"a journal is kept in SQLite or PostgreSQL, not in {other!r}: give "
                "sqlite:///runs.db or postgresql://user@host/name"
            )


def _url(place: str | Path) -> URL:
    if isinstance(place, Path) or "://" not in place:
        if not str(place):
            raise ConfigurationError("the path of a journal must not be empty: give runs.db")
        return URL.create("sqlite", database=str(place))
    try:
        return make_url(place)
    except ArgumentError as error:
        raise ConfigurationError(f"{place!r} is no URL of a database: {error}") from error


def _sqlite(url: URL, timeout_s: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": timeout_s})

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, record: Any) -> None:
        connection.isolation_level = None  # we begin transactions, not the driver
        use_wal(connection, timeout_s)
        for pragma in (
            # A step that was acknowledged is on the disk, also when the power fails: a tool may
            # have been begun on the strength of it.
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        mode = connection.get_execution_options().get(MODE, "write")
        if mode != "outside":
            # A transaction that reads first and writes later could find that it must not.
            connection.exec_driver_sql("BEGIN" if mode == "read" else "BEGIN IMMEDIATE")

    return engine


def _postgresql(url: URL, timeout_s: float) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    return create_engine(
        url,
        connect_args={"options": f"-c lock_timeout={round(timeout_s * 1_000)}"},
    )


def name_of(engine: Engine) -> str:
    """Return the URL without its password, for messages."""
    return engine.url.render_as_string(hide_password=True)
