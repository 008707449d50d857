"""A run beside the call that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from agentkit.events import Event, RunStarted
from agentkit.observe.team_view import TeamView
from agentkit.stream import RunStream

Tell: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes a line that says what has happened."""


async def driven(stream: RunStream[Any], view: TeamView, tell: Tell) -> None:
    """Read a run to its end or its pause, and tell what happens.

    The run has a task of its own. A client that reads slowly does not slow it down; and the SDK
    cancels by cancelling every wait again, which would cut a run's cleanup short: here the run is
    cancelled once, and what it has done is kept.

    Raises:
        Exception: what the run raises.
    """
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async with stream as events:
                async for event in events:
                    line = _line(event, view)
                    if line is not None:
                        lines.put_nowait(line)
        finally:
            lines.put_nowait(None)

    run = asyncio.create_task(read())
    try:
        while (line := await lines.get()) is not None:
            await tell(line)
        await run
    finally:
        await _ended(run)


def _line(event: Event, view: TeamView) -> str | None:
    _, line = view.push(event)
    if isinstance(event, RunStarted):
        return f"{event.agent}: run {event.run_id} begins"
    return line


async def _ended(run: asyncio.Task[None]) -> None:
    """Cancel a run that has not ended, and wait until it has."""
    from anyio import CancelScope

    run.cancel()
    with CancelScope(shield=True):
        await asyncio.wait([run])
    if not run.cancelled():
        run.exception()  # whoever waits has it already, or is cancelled
