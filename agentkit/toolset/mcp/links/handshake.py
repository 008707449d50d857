"""Agreeing on a protocol with a server, and why that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.transport import FAULTS, REFUSED, Transport
from agentkit.toolset.mcp.server import Protocol
from agentkit.toolset.mcp.server_checks import without_queries

if TYPE_CHECKING:
    from mcp import ClientSession


class ServerEnded(McpConnectError):
    """The server's process ended, or closed its stdout, before the handshake was done."""


async def negotiate(
    session: ClientSession, protocol: Protocol, alias: str, transport: Transport
) -> McpConnectError | None:
    """Shake hands. Returns why that failed; None if it did not."""
    from mcp import MCPError

    try:
        await _agree(session, protocol, transport)
    except (MCPError, ValueError, RuntimeError) as error:
        return await problem_of(error, alias, transport)
    return None


async def problem_of(error: Exception, alias: str, transport: Transport) -> McpConnectError:
    """Return what to say of a server that could not be connected."""
    if transport.pid is not None and transport.closed.is_set():
        return ServerEnded(alias, await transport.problem())
    return McpConnectError(alias, transport.fault or _said_of(error, transport.secrets))


async def _agree(session: ClientSession, protocol: Protocol, transport: Transport) -> None:
    """Take the modern protocol if the server knows it, else the old handshake."""
    from mcp import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

    if protocol == "auto":
        try:
            await session.discover()
            return
        except (MCPError, ValueError, RuntimeError) as error:
            code = error.code if isinstance(error, MCPError) else None
            # The SDK's code for a closed connection says nothing here: servers in TypeScript
            # answer with it whatever comes before the old handshake.
            if code == REFUSED or transport.closed.is_set():
                raise
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # A slow server answered the first probe after we had given it up, and is now a modern one.
        await session.discover()


def _said_of(error: Exception, secrets: ServerSecrets) -> str:
    """An error, said of the server, without what an address may hold of secrets."""
    from mcp import MCPError

    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError) and error.code in FAULTS:
        return secrets.hidden(error.message)
    text = without_queries(secrets.hidden(str(error)))[:500]
    kind = "" if isinstance(error, MCPError) else f"{type(error).__name__}: "
    return f"refused the handshake: {kind}{text}"
