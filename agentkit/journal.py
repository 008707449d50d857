"""The seam between the loop and where runs are kept. The database is in `agentkit.store`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from agentkit.errors import AgentkitError
from agentkit.saved import SavedRun


class JournalError(AgentkitError):
    """A run could not be kept or found. A run whose steps cannot be kept does not go on."""


Check: TypeAlias = Callable[[tuple[SavedRun, ...]], object]
"""Looks at a run and those below it, and raises if they must be left alone. May be called in a
thread, and again."""


@runtime_checkable
class Journal(Protocol):
    """Keeps runs, step by step. One object serves many runs at once, on one event loop."""

    async def save(self, run: SavedRun) -> None:
        """Keep what is new in a run since it was saved last. Atomic; durable when it returns.

        The first save of a run id begins the run. Saves of one run come one after another.

        Raises:
            JournalError: it could not be kept, or `run.claim` is not that of who has begun or
                claimed it last: somebody else goes on with it.
        """
        ...

    async def load(self, run_id: str) -> tuple[SavedRun, ...]:
        """Return a run, and all runs below it, the run itself first; none if it is unknown."""
        ...

    async def claim(self, run_id: str, check: Check | None = None) -> tuple[SavedRun, ...]:
        """Like `load`, to go on with it: saves by whoever ran it before fail from now on.

        What it returns has a `claim` that nobody else has, in this process neither.

        Args:
            run_id: the run.
            check: called with what would be returned. What it raises is raised, and whoever has the
                run keeps it: nothing is saved in between.

        Raises:
            JournalError: the run is unknown.
        """
        ...

    async def latest(self, session: str, agent: str) -> SavedRun | None:
        """Return the last root run of a session, whose conversation the next one goes on with."""
        ...


@runtime_checkable
class Holder(Protocol):
    """A journal that finds runs whose process is gone, if it is told which go on."""

    def held(self, run_id: str, claim: str) -> AbstractContextManager[None]:
        """Note that a run goes on, by this claim, until what is returned is left."""
        ...


class MemoryJournal:
    """Keeps runs for as long as the process lives. For tests, and for pauses within a process."""

    def __init__(self) -> None:
        self._runs: dict[str, SavedRun] = {}

    async def save(self, run: SavedRun) -> None:
        """Keep the run as it is now.

        Raises:
            JournalError: somebody else goes on with it.
        """
        of_claim = self._runs.get(run.run_id) or self._runs.get(run.parent or "")
        if of_claim is not None and of_claim.claim != run.claim:
            raise JournalError(
                f"run {run.run_id!r} is no longer ours: somebody else goes on with it, or has its "
                "id. It ends here; nothing that was saved is lost"
            )
        self._runs[run.run_id] = run

    async def load(self, run_id: str) -> tuple[SavedRun, ...]:
        """Return the run and those below it."""
        if run_id not in self._runs:
            return ()
        below = [run for run in self._runs.values() if run.parent == run_id]
        parts = [await self.load(run.run_id) for run in below]
        return (self._runs[run_id], *(run for part in parts for run in part))

    async def claim(self, run_id: str, check: Check | None = None) -> tuple[SavedRun, ...]:
        """Return the run and those below it, once `check` has seen them.

        Raises:
            JournalError: the run is unknown.
        """
        if not (runs := await self.load(run_id)):
            raise JournalError(f"there is no run {run_id!r} in this journal")
        if check is not None:
            check(runs)
        claim = uuid.uuid4().hex
        claimed = tuple(replace(run, claim=claim) for run in runs)
        self._runs |= {run.run_id: run for run in claimed}
        return claimed

    async def latest(self, session: str, agent: str) -> SavedRun | None:
        """Return the last root run of the session."""
        roots = [
            run
            for run in self._runs.values()
            if run.parent is None and (run.session, run.agent) == (session, agent)
        ]
        return roots[-1] if roots else None
