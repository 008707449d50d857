"""The runs that one run has begun. `team/below.py` begins them, and puts them back."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentkit.result import Failed
from agentkit.saved import SavedEnd

if TYPE_CHECKING:
    from agentkit.state import RunState


class RunsBelow:
    """In the order in which they were begun, which is that of records and reports."""

    def __init__(self) -> None:
        self._runs: list[RunState] = []
        self._before: dict[str, RunState] = {}
        """Those that were begun by another process, by id."""
        self._places: Counter[tuple[int, str | None, str]] = Counter()

    def __iter__(self) -> Iterator[RunState]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: RunState) -> None:
        """Add a new run."""
        self._runs.append(run)

    def put_back(self, run: RunState) -> None:
        """Add a run that another process has begun."""
        self._runs.append(run)
        self._before[run.run_id] = run

    def begun_before(self, run_id: str) -> RunState | None:
        """Return the run of this id that was put back."""
        return self._before.get(run_id)

    def next_id(self, parent: str, turn: int, call_id: str | None, label: str) -> str:
        """Return the id of the next run that is begun at a place of the parent's run.

        It is the same in whichever process: so a call that is run again finds what it has begun.
        """
        place = (turn, call_id, label)
        number = self._places[place]
        self._places[place] += 1
        named = "\0".join((parent, str(turn), call_id or "", label, str(number)))
        return hashlib.sha256(named.encode()).hexdigest()[:32]

    async def end(self, call_id: str) -> None:
        """A call has its result: what it has begun, and was cut off, does not go on any more.

        Raises:
            JournalError: it could not be kept.
        """
        for run in self._runs:
            is_cut_off = run.call_id == call_id and run.status == "running"
            if is_cut_off and isinstance(run.outcome, Failed):
                await run.commit("failed", SavedEnd(error=run.outcome.reason))
