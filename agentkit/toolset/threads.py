"""Blocking functions off the event loop, without holding up its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def run_in_thread(function: Callable[[], Result], name: str) -> Result:
    """Run a blocking function in a daemon thread of its own and wait for it.

    Not `asyncio.to_thread`: its pool has few threads, so that stuck functions starve the others,
    and the loop joins it when it closes, so that one stuck function keeps the program from
    ending. When the waiting task is cancelled the thread runs on and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Callable[[], Result]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(outcome: Callable[[], Result]) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome = _outcome_of(lambda: context.run(function))
        try:
            loop.call_soon_threadsafe(deliver, outcome)
        except RuntimeError:
            # The loop was closed: nobody waits any more.
            return

    threading.Thread(target=work, name=f"tool-{name}", daemon=True).start()
    return (await done)()


def _outcome_of(function: Callable[[], Result]) -> Callable[[], Result]:
    """Run the function; return a thunk that returns its result or raises its error."""
    try:
        result = function()
    except BaseException as error:
        # A future cannot hold every exception (not StopIteration), a thunk can.
        raised = error

        def fail() -> Result:
            raise raised

        return fail
    return lambda: result
