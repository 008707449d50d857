"""One thread that owns the database's connection; saves that wait together are one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from agentkit.journal import JournalError
from agentkit.saved import SavedRun
from agentkit.store.engine import MODE, name_of
from agentkit.store.saving import Known, Latest, save_run

Value = TypeVar("Value")

_BATCH = 64
"""Saves in one transaction, at most."""
_TRIES = 5
"""How often a transaction is tried that the server gave up in favour of another one."""
_FIRST_WAIT_S = 0.01


class _Save:
    def __init__(self, run: SavedRun) -> None:
        self.run = run
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()

    def answer(self, error: Exception | None) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended, and nobody waits
            self.loop.call_soon_threadsafe(self._answer, error)

    def _answer(self, error: Exception | None) -> None:
        if self.done.cancelled():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Worker:
    """Runs everything that touches the database, one after the other."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.latest = Latest()
        """Changed in the thread only."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agentkit-journal")
        self._waiting: deque[_Save] = deque()
        self._is_closed = False

    async def save(self, run: SavedRun) -> None:
        """Keep what is new in a run. If this is cancelled, it is kept nevertheless.

        Raises:
            JournalError: it was not kept.
        """
        save = _Save(run)
        self._check_open()
        self._waiting.append(save)
        self._thread.submit(self._save_waiting)
        await save.done

    async def write(self, work: Callable[[Connection], Value]) -> Value:
        """Return what `work` returns, in a transaction that may write.

        Raises:
            JournalError: the database failed.
        """
        return await self._call(lambda: self._transaction(work))

    def write_now(self, work: Callable[[Connection], object]) -> None:
        """Like `write`, and waits for it; for threads.

        Raises:
            JournalError: the database failed.
            RuntimeError: nothing can be done any more.
        """
        self._thread.submit(self._transaction, work).result()

    async def read(self, work: Callable[[Connection], Value]) -> Value:
        """Return what `work` returns; it sees the database as it is at one moment.

        Raises:
            JournalError: the database failed.
        """
        return await self._call(lambda: self._reading(work))

    async def outside(self, work: Callable[[Connection], Value]) -> Value:
        """Return what `work` returns, outside of any transaction.

        Raises:
            JournalError: the database failed.
        """
        return await self._call(lambda: self._outside(work))

    def close(self) -> None:
        """Wait until everything is done, and close the connections. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self.engine.dispose)
            self._thread.shutdown(wait=True)

    async def _call(self, work: Callable[[], Value]) -> Value:
        self._check_open()
        return await asyncio.wrap_future(self._thread.submit(work))

    def _check_open(self) -> None:
        if self._is_closed:
            raise JournalError(f"the journal {name_of(self.engine)} is closed")

    # In the thread.

    def _save_waiting(self) -> None:
        batch: list[_Save] = []
        while self._waiting and len(batch) < _BATCH:
            batch.append(self._waiting.popleft())
        error = self._try_saving(batch) if batch else None
        is_over = error is None or isinstance(error, JournalUnavailable) or len(batch) == 1
        for save in batch:
            # One by one: what is wrong with one of them must not harm the others.
            save.answer(error if is_over else self._try_saving([save]))

    def _try_saving(self, batch: list[_Save]) -> Exception | None:
        try:
            self.latest.put(self._transaction(lambda connection: self._save(connection, batch)))
        except Exception as error:
            return error
        return None

    def _save(self, connection: Connection, batch: list[_Save]) -> dict[str, Known]:
        saved: dict[str, Known] = {}
        for each in batch:
            run = each.run
            known = saved.get(run.run_id) or self.latest.get(run.run_id)
            saved[run.run_id] = save_run(connection, run, known)
        return saved

    def _transaction(self, work: Callable[[Connection], Value]) -> Value:
        return self._tried(lambda: self.engine.connect(), work)

    def _reading(self, work: Callable[[Connection], Value]) -> Value:
        return self._tried(lambda: self._connect("read", "REPEATABLE READ"), work)

    def _outside(self, work: Callable[[Connection], Value]) -> Value:
        with self._errors(), self._connect("outside", "AUTOCOMMIT") as connection:
            return work(connection)

    def _tried(
        self, connect: Callable[[], Connection], work: Callable[[Connection], Value]
    ) -> Value:
        for tries in range(1, _TRIES + 1):
            try:
                with self._errors(), connect() as connection, connection.begin():
                    # An error of the commit itself is none of these: it may have been done.
                    with self._errors(may_retry=True):
                        return work(connection)
            except _GivenUp:
                if tries == _TRIES:
                    raise
                time.sleep(_FIRST_WAIT_S * 2**tries)
        raise AssertionError("the loop returns or raises")

    def _connect(self, mode: str, isolation: str) -> Connection:
        """Return a connection; in SQLite the mode says everything."""
        options = {MODE: mode}
        if self.engine.dialect.name == "postgresql":
            options["isolation_level"] = isolation
        return self.engine.execution_options(**options).connect()

    @contextlib.contextmanager
    def _errors(self, *, may_retry: bool = False) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            kind = JournalError
            if may_retry and _was_given_up(error):
                kind = _GivenUp
            elif isinstance(error, OperationalError):
                kind = JournalUnavailable
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise kind(f"the journal {name_of(self.engine)} failed: {cause}") from error


class JournalUnavailable(JournalError):
    """The database is locked, full or gone: for all who use it."""


class _GivenUp(JournalUnavailable):
    """The server ended the transaction, or the connection was gone: it may be tried again."""


def _was_given_up(error: SQLAlchemyError) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    # What the server ends in favour of another transaction has one of these codes.
    is_victim = getattr(error.orig, "sqlstate", None) in ("40001", "40P01")
    return is_victim or error.connection_invalidated
