"""What a link needs of a transport, whatever lies below: a process, HTTP, or a server object here.

Modules that hold transports import the MCP SDK; `open_transport` loads the one it needs.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.unanswered import Unanswered
from agentkit.toolset.mcp.server import McpServer

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

    Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

NOT_SENT = -32097
"""Code of an error that a transport answers with itself: the request did not get to the server."""

LOST = -32098
"""Code of an error that a transport answers with itself: what became of the request is unknown."""

REFUSED = -32096
"""Code of an error that a transport answers with itself: the server did not let us in."""

TOO_LATE = -32095
"""Code of an error that a link answers with itself: there was no answer in time."""

NOT_CARRIED_OUT = frozenset({NOT_SENT, REFUSED})

FAULTS = frozenset({NOT_SENT, LOST, REFUSED})
"""The message of an error with such a code is said of the server: "cannot be reached".
"""

_OURS = FAULTS | {TOO_LATE}

_INTERNAL_ERROR = -32603
"""Of JSON-RPC: something went wrong in the server."""


def code_of_theirs(code: int) -> int:
    """Return the code of an error that a server sent. What one of ours says is not for it to say:
    that a call was not carried out, say."""
    return _INTERNAL_ERROR if code in _OURS else code


def theirs(message: JSONRPCMessage) -> JSONRPCMessage:
    """Return a server's message without a code of ours."""
    from mcp_types import JSONRPCError

    if isinstance(message, JSONRPCError) and message.error.code in _OURS:
        error = message.error.model_copy(update={"code": _INTERNAL_ERROR})
        return message.model_copy(update={"error": error})
    return message


class Transport(Protocol):
    """The stream pair of one life of a server, as an async context manager.

    Entered and left in one task; leaving frees everything, in bounded time.
    """

    closed: asyncio.Event
    """Set as soon as no more messages can come."""
    hurry: asyncio.Event
    """Set it to skip the polite part of leaving."""
    fault: str | None
    """Why the connection was ended from this side, said of the server."""
    secrets: ServerSecrets
    """What is in no text of this class, and must be in no other that is shown."""
    n_junk_lines: int
    first_junk: str | None
    unanswered: Unanswered
    """The requests of the server that wait for an answer from us."""

    @property
    def pid(self) -> int | None:
        """The process id of the server, if it is a process of ours."""

    @property
    def last_words(self) -> str:
        """The last part of what the server wrote to stderr; empty if it has none."""

    async def __aenter__(self) -> Streams: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None: ...

    def is_stuck(self, limit_s: float) -> bool:
        """Whether the server has for this long not taken the message that is being written."""

    def give_up(self) -> None:
        """End the connection to a server that does not read; all requests fail at once."""

    async def problem(self) -> str:
        """Why no more messages come, said of the server. May wait a moment for its last words."""


async def open_transport(server: McpServer) -> Transport:
    """Make the transport that leads to this server. A process is started here, nothing else is.

    Raises:
        McpConnectError: the process cannot be started.
    """
    if server.command:
        from agentkit.toolset.mcp.links.stdio import start_server

        return await start_server(server)
    if server.url is None:
        from agentkit.toolset.mcp.links.memory import MemoryTransport

        return MemoryTransport(server)
    if server.transport == "sse":
        from agentkit.toolset.mcp.links.sse import SseTransport

        return SseTransport(server)
    from agentkit.toolset.mcp.links.http import HttpTransport

    return HttpTransport(server)
