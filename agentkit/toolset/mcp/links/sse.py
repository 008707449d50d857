"""A server over the HTTP transport of before 2025-03-26: one stream of events, and posts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
from mcp.client.sse import sse_client

from agentkit.toolset.mcp.links.guard import GuardedClient
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.streams import StreamTransport
from agentkit.toolset.mcp.server import McpServer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from agentkit.toolset.mcp.links.transport import Streams


class SseTransport(StreamTransport):
    """The stream pair of one event stream. When a post fails the connection ends with it: the
    answer would have come through the stream, so nobody would ever see that it does not come."""

    def __init__(self, server: McpServer) -> None:
        super().__init__(ServerSecrets(server))
        self._server = server

    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        assert self._server.url is not None
        return sse_client(self._server.url, httpx_client_factory=self._client)

    def _client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Make the client that the SDK asks for; what it should send is the guarded client's."""
        return GuardedClient(self._server, self.secrets, self.end, self.hurry, ends_at_failure=True)
