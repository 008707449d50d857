"""A server over streamable HTTP: the SDK's transport, sent through a guarded client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from mcp.client.streamable_http import streamable_http_client

from agentkit.toolset.mcp.links.guard import GuardedClient
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.streams import StreamTransport
from agentkit.toolset.mcp.server import McpServer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from agentkit.toolset.mcp.links.transport import Streams


class HttpTransport(StreamTransport):
    """The stream pair of one session, or of a series of requests without a session.

    It ends when the server cannot be reached any more, or has ended the session: the next use
    then begins anew, as after the end of a process.
    """

    def __init__(self, server: McpServer) -> None:
        super().__init__(ServerSecrets(server))
        self._server = server

    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        return self._session()

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Streams]:
        assert self._server.url is not None
        async with (
            GuardedClient(self._server, self.secrets, self.end, self.hurry) as client,
            streamable_http_client(
                self._server.url,
                http_client=client,
                max_sse_event_size=None,  # the guarded client has bounded it
            ) as streams,
        ):
            yield streams
