"""Who opens a new file while others do waits for them, as long as it may."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentkit.wal import use_wal


class Counted(sqlite3.Connection):
    """Lets the other one go when it has been refused once."""

    other: sqlite3.Connection
    tries = 0

    def execute(self, *args: Any) -> sqlite3.Cursor:
        self.tries += 1
        if self.tries == 2:
            self.other.execute("COMMIT")
        return super().execute(*args)


def _held(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE t (x)")
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_file_that_another_holds_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with (
        closing(_held(path)) as other,
        closing(sqlite3.connect(path, timeout=30, factory=Counted)) as connection,
    ):
        connection.other = other
        use_wal(connection, 30)
        assert connection.tries == 2  # SQLite itself did not wait
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_stays_held_is_an_error_in_time(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(_held(path)), closing(sqlite3.connect(path, timeout=0)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_wal(connection, 0.02)


def test_what_is_no_database_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("no database " * 100)
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(sqlite3.DatabaseError, match="not a database"):
            use_wal(connection, 30)
