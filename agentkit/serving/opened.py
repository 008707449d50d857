"""The agent's own MCP servers: connected once for all who ask, ended when nobody is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentkit.agent import Agent


class OpenedAgent:
    """An agent that is open while somebody is served.

    Its servers start beside the handshake with the client, which need not wait for them. One task
    opens and closes, whatever tasks the SDK serves in.
    """

    def __init__(self, agent: Agent[Any, Any]) -> None:
        self._agent = agent
        self._n_users = 0
        self._owner: asyncio.Task[None] | None = None
        self._is_ready: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Keep the agent open; the last one to leave closes it."""
        self._n_users += 1
        self._begin()
        try:
            yield
        finally:
            self._n_users -= 1
            if self._n_users == 0:
                await self._end()

    async def ready(self) -> None:
        """Wait until the agent is open. One that could not be opened is tried again.

        Raises:
            McpConnectError, ConfigurationError: it cannot be.
        """
        self._begin()
        assert self._is_ready is not None, "it has begun"
        # Shielded: others wait for the same, and one who is cancelled must not cancel it for them.
        await asyncio.shield(self._is_ready)

    def _begin(self) -> None:
        if self._owner is not None and not self._owner.done():
            return
        self._stop = asyncio.Event()
        self._is_ready = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(self._is_ready, self._stop))

    async def _own(self, is_ready: asyncio.Future[None], stop: asyncio.Event) -> None:
        try:
            if self._agent.is_open:  # the application has opened it, and closes it
                is_ready.set_result(None)
                await stop.wait()
                return
            async with self._agent:
                is_ready.set_result(None)
                await stop.wait()
        except Exception as error:
            if is_ready.done():
                raise
            is_ready.set_exception(error)
            is_ready.exception()  # nobody may ever ask

    async def _end(self) -> None:
        owner, self._owner = self._owner, None
        self._stop.set()
        if owner is None:
            return
        if self._is_ready is not None and not self._is_ready.done():
            owner.cancel()
        from anyio import CancelScope

        with CancelScope(shield=True):
            await asyncio.wait([owner])
        if not owner.cancelled() and (error := owner.exception()) is not None:
            raise error
