"""What ends a run from outside: its deadline, and a guard that watches while the model answers.

Only what the run itself does between two events is cut off, never who reads its events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentkit.errors import RunError
from agentkit.events import Event
from agentkit.hooking import watches, watches_input

if TYPE_CHECKING:
    from agentkit.state import RunState
    from agentkit.team.plan import AnyAgent


def is_bounded(run: RunState) -> bool:
    """Whether anything may end the run from outside, also once it is handed over."""
    return (
        run.budget.seconds_left is not None
        or watches_input(run)
        or any(_bounds(member.agent) for member in run.member.others)
    )


def _bounds(agent: AnyAgent) -> bool:
    has_deadline = agent.limits is not None and agent.limits.seconds is not None
    return has_deadline or any(map(watches, agent.hooks))


class Bounds:
    """Surrounds the steps of one run."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._watch: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._scope: asyncio.Timeout | None = None

    def watch(self, guard: Coroutine[None, None, None]) -> None:
        """Let a guard run beside the run; what it raises ends the run at once."""
        self._watch = asyncio.create_task(guard)
        self._watch.add_done_callback(self._watched)

    async def passed(self) -> None:
        """Wait until the guard has let the run pass; raises what it raises."""
        if self._watch is not None:
            await asyncio.shield(self._watch)
            self._watch = None

    async def within(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Pass on the events, until a bound is reached. The run is ended before this raises.

        Raises:
            LimitReached: the run is out of time.
            Exception: what the guard has raised.
        """
        try:
            async with aclosing(events):
                while True:
                    event = await self._next(events)
                    if event is None:
                        break
                    yield event
        finally:
            await self._stop_watching()
        if self._error is not None:
            if isinstance(self._error, RunError):
                self._error.partial = self._run.record()
            raise self._error

    async def _next(self, events: AsyncGenerator[Event, None]) -> Event | None:
        """Return the next event; None at the end, which may be an error."""
        if self._error is not None:
            return None
        left_s = self._run.budget.seconds_left
        deadline = None if left_s is None else asyncio.get_running_loop().time() + left_s
        scope = asyncio.timeout_at(deadline)
        try:
            async with scope:
                self._scope = scope
                return await anext(events, None)
        except TimeoutError:
            if not scope.expired():
                raise
            self._error = self._error or self._run.budget.out_of_time()
            return None
        finally:
            self._scope = None

    def _watched(self, watch: asyncio.Task[None]) -> None:
        if watch.cancelled() or (error := watch.exception()) is None:
            return
        self._error = error
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _stop_watching(self) -> None:
        if self._watch is not None and not self._watch.done():
            self._watch.cancel()
            await asyncio.wait([self._watch])
