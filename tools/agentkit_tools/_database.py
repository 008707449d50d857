"""One SQLite file (or memory) for many threads and processes: transactions that end in time."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

from agentkit_tools._errors import Refused

_BUSY_S = 10.0
_MOMENT_S = 0.5
_PAGE_BYTES = 4096
_MIN_PAGES = 64


class Database:
    """A connection whose users take turns. `max_bytes` bounds the file, `full` says what then.

    Raises:
        sqlite3.Error: the file cannot be opened, or is no database.
    """

    def __init__(self, file: str, *, max_bytes: int, full: str) -> None:
        self._full = full
        self._deadline = float("inf")
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            file, check_same_thread=False, isolation_level=None, timeout=_BUSY_S
        )
        self._connection.set_progress_handler(self._is_late, 10_000)
        self.execute(f"PRAGMA max_page_count = {max(_MIN_PAGES, max_bytes // _PAGE_BYTES)}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def let_read_while_written(self) -> None:
        """Let other connections to the file read what was there before a change, until it is done.

        Two more files lie beside it then, while it is open. Where the system has no shared memory
        for them, all take turns as before.
        """
        with contextlib.suppress(sqlite3.OperationalError):
            self.execute("PRAGMA journal_mode = WAL")

    def copy_from(self, other: Database, max_seconds: float) -> None:
        """Hold what another database holds, and nothing of before.

        Raises:
            Refused: one of the two is in use for longer than that, or broken.
        """
        with self._waited_for(max_seconds), other._waited_for(max_seconds):
            try:
                other._connection.backup(self._connection)
            except sqlite3.DatabaseError as error:
                raise Refused(self._in_words(error)) from error

    def add_function(self, name: str, n_arguments: int, function: Callable[..., Any]) -> None:
        """Make a pure function known to SQL."""
        self._connection.create_function(name, n_arguments, function, deterministic=True)

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Execute one statement. Inside `turn`, unless it is alone."""
        return self._connection.execute(statement, values)

    def one(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row, if there is one."""
        row: tuple[Any, ...] | None = self.execute(statement, values).fetchone()
        return row

    @contextlib.contextmanager
    def turn(self, kind: Literal["reads", "writes"], max_seconds: float) -> Iterator[None]:
        """A transaction: all of it or nothing, over one state that nobody changes meanwhile.

        It takes at most `max_seconds`, and waits at most as long for the turn of another thread.

        Raises:
            Refused: it takes too long, the file is full or locked by another process, or broken.
        """
        start = time.monotonic()
        with self._waited_for(max_seconds):
            # What the wait took is a part of it, but leaves a moment for a quick one.
            self._deadline = max(
                start + max_seconds, time.monotonic() + min(max_seconds, _MOMENT_S)
            )
            try:
                self.execute("BEGIN IMMEDIATE" if kind == "writes" else "BEGIN")
                yield
                self.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                raise Refused(self._in_words(error)) from error
            except UnicodeEncodeError:
                raise Refused("a text has half of a surrogate pair; leave it out") from None
            finally:
                self._deadline = float("inf")
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")

    @contextlib.contextmanager
    def _waited_for(self, max_seconds: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.0, max_seconds)):
            raise Refused("another call is still at work here; try again in a few seconds")
        try:
            yield
        finally:
            self._lock.release()

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _in_words(self, error: sqlite3.DatabaseError) -> str:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_INTERRUPT":
            return "this takes too long; give fewer and longer words"
        if name == "SQLITE_FULL":
            return self._full
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            return "another process is writing to the same file; try again in a few seconds"
        return f"the database cannot be used: {error}"
