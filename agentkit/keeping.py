"""Keeps the steps of one run in a journal, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from agentkit.journal import Holder, Journal, JournalError
from agentkit.saved import SavedRun


def held(journal: Journal | None, run_id: str, claim: str) -> AbstractContextManager[None]:
    """Let the journal know that a run goes on here, where it wants to know that."""
    return journal.held(run_id, claim) if isinstance(journal, Holder) else nullcontext()


class Keeper:
    """Where a run is kept. Calls that end at the same time are one save.

    Args:
        journal: where to.
        last: what it has of the run already.
    """

    def __init__(self, journal: Journal, last: SavedRun | None = None) -> None:
        self._journal = journal
        self.last = last
        """What the journal has of the run, or may have."""
        self._n_asked = self._n_kept = 0
        self._has_ended = False
        self._lock = asyncio.Lock()

    async def keep(self, now: Callable[[], SavedRun]) -> None:
        """Keep the run as it is, before the next step begins.

        Raises:
            JournalError: it could not be kept.
        """
        self._n_asked += 1
        wanted = self._n_asked
        async with self._lock:
            if self._n_kept >= wanted:
                return  # who held the lock has kept this step too
            covered, run = self._n_asked, now()
            if self._has_ended and run.status == "running":
                raise JournalError("the run has ended: what goes on in it is not kept any more")
            self.last = run  # before it is: where this is cancelled, it may be kept still
            await self._journal.save(run)
            self._n_kept = covered

    async def keep_end(self, run: SavedRun) -> None:
        """Keep how the run ended, if that can be kept: the error that ended it counts more."""
        async with self._lock:
            self._has_ended = True
            with contextlib.suppress(JournalError):
                await self._journal.save(run)
