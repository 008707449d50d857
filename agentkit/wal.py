"""SQLite's write-ahead log, so that who reads need not wait for who writes."""

from __future__ import annotations

import sqlite3
import time

_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.05
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Let the file keep a write-ahead log from now on; it stays so for all who open it.

    The one change to a new file needs it alone, and SQLite does not wait for that: the timeout of
    a connection holds for transactions (https://www.sqlite.org/c3ref/busy_handler.html). So this
    waits, up to `timeout_s` seconds. Of several who open a new file at once one makes the change,
    and the others find it made.

    Raises:
        sqlite3.OperationalError: others hold the file for longer than that.
    """
    end = time.monotonic() + timeout_s
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            left_s = end - time.monotonic()
            if error.sqlite_errorcode & 0xFF not in _BUSY or left_s <= 0:
                raise
        time.sleep(min(wait_s, left_s))
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
