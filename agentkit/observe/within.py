"""Runs a generator inside a context that its reader does not see."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

T = TypeVar("T")


async def within(
    surround: Callable[[], AbstractContextManager[object]], events: AsyncGenerator[T, None]
) -> AsyncGenerator[T, None]:
    """Pass on events; `surround()` is entered whenever `events` runs, and at no other time.

    For context variables: one that is set while a generator is suspended leaks into whoever reads
    it, and may be reset in another task's context, which is an error.
    """
    try:
        while True:
            with surround():
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
            yield event
    finally:
        with surround():
            await events.aclose()
