"""Says that runs go on, for as long as they do: so nobody takes them for runs without a process.

A save says it too. Between two saves, which a long tool call may keep apart for hours, a thread
does, for all runs of its journal in one transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, bindparam, update

from agentkit.journal import JournalError
from agentkit.store.schema import runs

RENEWED_EVERY_S = 15.0
_AGAIN_AFTER_S = 1.0
"""Behind a failure. A database that was away for minutes has left all runs silent: those that go on
should say so before anybody looks for orphans."""

Lease = tuple[str, str]
"""The id of a run, and the claim by which it is saved."""


class Leases:
    """The runs that go on in this process. Costs a thread while there are any.

    Not the event loop's work: a tool that blocks the loop for long must not cost it its run.

    Args:
        renew: says in the database that these runs go on; in whichever thread.
        every_s: how often, in seconds.
    """

    def __init__(
        self, renew: Callable[[list[Lease]], None], every_s: float = RENEWED_EVERY_S
    ) -> None:
        self._renew = renew
        self._every_s = every_s
        self._changed = threading.Condition()
        self._held: dict[object, Lease] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @contextmanager
    def held(self, run_id: str, claim: str) -> Iterator[None]:
        """Say that a run goes on, from now until this is left."""
        key = object()
        with self._changed:
            self._held[key] = (run_id, claim)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._run, name="agentkit-journal-leases", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                del self._held[key]

    def close(self) -> None:
        """Say nothing more; wait until that is so. Idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        wait_s = self._every_s
        while held := self._due(wait_s):
            wait_s = self._every_s
            try:
                self._renew(held)
            except JournalError:  # what is wrong with the database, the next save tells
                wait_s = min(self._every_s, _AGAIN_AFTER_S)
            except RuntimeError:
                return  # the interpreter ends, and starts no more work in threads

    def _due(self, wait_s: float) -> list[Lease]:
        """Return the runs that go on, when it is time; none where the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed, wait_s)
            held = [] if self._is_closed else list(self._held.values())
            if not held:
                self._thread = None
            return held


def renew(connection: Connection, held: Iterable[Lease], now: float, every_s: float) -> None:
    """Write that runs go on, where no save has said so lately; nothing of runs of others.

    Args:
        connection: in a transaction that may write.
        held: the runs.
        now: seconds since 1970.
        every_s: how often this is done.
    """
    rows: list[dict[str, Any]] = [
        {"is_run": run_id, "is_owner": claim, "seen_at": now, "is_before": now - every_s / 2}
        for run_id, claim in held
    ]
    connection.execute(_RENEW, rows)


_RENEW = update(runs).where(
    runs.c.run_id == bindparam("is_run"),
    runs.c.owner == bindparam("is_owner"),
    runs.c.status == "running",
    runs.c.saved_at < bindparam("is_before"),
)
