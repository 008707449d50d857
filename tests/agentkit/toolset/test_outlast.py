"""Waiting that a cancellation does not cut short."""

from __future__ import annotations

import asyncio

from agentkit.toolset.outlast import outlast


async def test_a_waiter_that_is_cancelled_waits_on_and_hands_the_cancellation_back() -> None:
    may_end, hurried = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(may_end.wait())
    waiter = asyncio.create_task(outlast(task, on_cancel=hurried.set))
    for n in (1, 2):
        await asyncio.sleep(0)
        waiter.cancel(f"cancelled {n}")
        await asyncio.wait_for(hurried.wait(), timeout=30)
        hurried.clear()
    assert not waiter.done()
    may_end.set()
    cancelled = await waiter
    assert cancelled is not None
    assert cancelled.args == ("cancelled 2",)


async def test_a_time_limit_ends_the_wait_and_leaves_the_task_alone() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    assert await outlast(task, timeout_s=0.001) is None
    assert not task.done()
    task.cancel()
    assert await outlast(task) is None
