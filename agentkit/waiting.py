"""Requests of a run tree that wait for each other, where a limit is near."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Protocol, TypeAlias

from agentkit.errors import LimitReached
from agentkit.quote import Quote


class Part(Protocol):
    """A budget as requests see it."""

    def check_counts(self) -> None:
        """Check that no limit is used up.

        Raises:
            LimitReached: one is.
        """
        ...

    def is_full(self, amounts: Mapping[str, int | Decimal]) -> bool:
        """Whether a request has to wait for those under way; one that is alone never has."""
        ...

    def hold(self, amounts: Mapping[str, int | Decimal], sign: int) -> None:
        """Count a request as under way, or with -1 no longer."""
        ...


class Reservation:
    """A request that is under way."""

    def __init__(self, budgets: tuple[Part, ...], quote: Quote, queue: WaitingLine) -> None:
        self._budgets = budgets
        self._amounts = quote.amounts()
        self._queue = queue
        self._is_held = False

    def must_wait(self) -> Part | None:
        """Return a budget in which it does not fit beside what is under way, if there is one.

        Raises:
            LimitReached: a limit is used up.
        """
        for budget in self._budgets:
            budget.check_counts()
        return next((each for each in self._budgets if each.is_full(self._amounts)), None)

    @property
    def budgets(self) -> tuple[Part, ...]:
        """Those that it counts in."""
        return self._budgets

    def hold(self) -> None:
        """Count it as under way."""
        self._is_held = True
        for budget in self._budgets:
            budget.hold(self._amounts, 1)

    def settle(self) -> None:
        """It has ended, and what it used is counted: others may go. Idempotent."""
        if self._is_held:
            self._is_held = False
            for budget in self._budgets:
                budget.hold(self._amounts, -1)
            self._queue.serve()


class WaitingLine:
    """Requests of a run tree that wait for others. Who came first goes first.

    One that waits for its own subtree's limits does not hold up those that do not share them.
    """

    def __init__(self) -> None:
        self._waiting: list[_Entry] = []

    async def wait(self, wanted: Reservation) -> None:
        """Wait until a request fits, and hold it.

        Raises:
            LimitReached: a limit is used up.
        """
        if not self._waiting and wanted.must_wait() is None:
            wanted.hold()
            return
        entry: _Entry = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self.serve()
        try:
            used_up = await entry[1]
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self.serve()
            wanted.settle()
            raise
        if used_up is not None:
            raise used_up

    def serve(self) -> None:
        """Let all go that fit now, in the order in which they came."""
        full: set[int] = set()
        for entry in tuple(self._waiting):
            wanted, goes = entry
            if goes.cancelled():
                continue  # it leaves by itself, as soon as its task has its turn
            if full.intersection(map(id, wanted.budgets)):
                continue
            used_up: LimitReached | None = None
            try:
                budget = wanted.must_wait()
            except LimitReached as error:
                budget, used_up = None, error
            if budget is not None:
                full.add(id(budget))
                continue
            self._waiting.remove(entry)
            if used_up is None:
                wanted.hold()
            goes.set_result(used_up)


_Entry: TypeAlias = tuple[Reservation, "asyncio.Future[LimitReached | None]"]
"""Who waits, and what it will hear: that it may go, or that a limit is used up. No exception of the
future itself: nobody would ask for it where the task that waits is cancelled meanwhile."""
