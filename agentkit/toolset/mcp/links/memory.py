"""A server object of the MCP SDK, run in this process.

Its messages are JSON-RPC objects through streams in memory: the same code runs on both sides as
over a wire, in both protocol eras, only the bytes are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.streams import StreamTransport
from agentkit.toolset.mcp.server import McpServer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp.server import Server

    from agentkit.toolset.mcp.links.transport import Streams

_END_S = 2.0
"""How long the server's own clearing up may take before it is cancelled, and then again."""


class MemoryTransport(StreamTransport):
    """The stream pair of one run of a server object."""

    def __init__(self, server: McpServer) -> None:
        super().__init__(ServerSecrets(server))
        # `MCPServer` keeps its running part to itself; `Server` is that part.
        running: Any = server.server
        self._server: Server[Any] = getattr(running, "_lowlevel_server", running)

    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        return self._run()

    @contextlib.asynccontextmanager
    async def _run(self) -> AsyncIterator[Streams]:
        from mcp.shared.memory import create_client_server_memory_streams

        async with create_client_server_memory_streams() as (ours, (receive, send)):
            options = self._server.create_initialization_options()
            running = asyncio.create_task(self._server.run(receive, send, options))
            running.add_done_callback(self._note_end)
            try:
                yield ours
            finally:
                # The server sees that nobody is there any more.
                for stream in (*ours, send):
                    stream.close()
                await self._finish(running)

    async def _finish(self, running: asyncio.Task[None]) -> None:
        try:
            if not self.hurry.is_set():
                await asyncio.wait([running], timeout=_END_S)
        finally:
            running.cancel()
            await asyncio.wait([running], timeout=_END_S)

    def _note_end(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None:
            self.end(f"failed with {type(error).__name__}: {error}")
        self.closed.set()
