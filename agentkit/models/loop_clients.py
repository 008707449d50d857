"""HTTP clients, one for each event loop: a connection belongs to the loop that opened it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

ClientT = TypeVar("ClientT")


class LoopClients(Generic[ClientT]):
    """The client of the running event loop, made when it is first needed and closed with the loop.

    `run_sync` has a new loop every time. Usable from several loops and threads.

    Args:
        given: the user's own, which is then the only one, and stays theirs to close.
        make: makes one; its errors go to whoever asks.
        close: closes one.
    """

    def __init__(
        self,
        given: ClientT | None,
        make: Callable[[], ClientT],
        close: Callable[[ClientT], Awaitable[None]],
    ) -> None:
        self._given = given
        self._make = make
        self._close = close
        self._by_loop: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[ClientT, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    def __len__(self) -> int:
        """How many of our own are open."""
        return len(self._by_loop)

    async def get(self) -> ClientT:
        """Return the client that was given, or this loop's own."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            client = self._make()
            guard = self._held_open(client)
            self._by_loop[loop] = client, guard
            await anext(guard)
        return self._by_loop[loop][0]

    async def aclose(self) -> None:
        """Close this loop's own client; the next `get` makes another. Idempotent."""
        found = self._by_loop.get(asyncio.get_running_loop())
        if found is not None:
            await found[1].aclose()

    async def _held_open(self, client: ClientT) -> AsyncGenerator[None, None]:
        """Wait to be closed: `asyncio.run` closes every generator that has not ended."""
        try:
            yield
        finally:
            self._by_loop.pop(asyncio.get_running_loop(), None)
            await self._close(client)
