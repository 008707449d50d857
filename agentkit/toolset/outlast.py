"""Waiting that a cancellation does not cut short, for what must not be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def outlast(
    task: asyncio.Task[Any],
    *,
    timeout_s: float | None = None,
    on_cancel: Callable[[], object] | None = None,
) -> asyncio.CancelledError | None:
    """Wait until a task is done, or the time is over, also if the waiter is cancelled meanwhile.

    Args:
        task: cancelled by nobody here; its result is not looked at.
        timeout_s: None waits for ever.
        on_cancel: called at each cancellation, to make the task hurry.

    Returns:
        The last cancellation, which the caller raises when it is done; None: there was none.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        left_s = None if deadline is None else deadline - loop.time()
        if left_s is not None and left_s <= 0:
            break
        try:
            await asyncio.wait([task], timeout=left_s)
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    return cancelled
