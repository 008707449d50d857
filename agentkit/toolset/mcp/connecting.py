"""Connecting several servers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.connection import McpConnection
from agentkit.toolset.mcp.server import McpServer


async def connect_all(servers: Iterable[McpServer]) -> list[McpConnection]:
    """Connect servers in parallel; the connections come in the order of the servers.

    A server that cannot be used does not hold up the others: its connection has no tools, and
    `error` says why. Close every connection when done. If the caller is cancelled, all are
    closed.

    Raises:
        ValueError: two servers have one alias.
    """
    connections = [server.connect() for server in servers]
    aliases = [connection.server.alias for connection in connections]
    if len(set(aliases)) != len(aliases):
        raise ValueError(f"MCP server aliases must be unique, not {aliases!r}")
    try:
        await asyncio.gather(*(_try_open(connection) for connection in connections))
    except BaseException:
        await asyncio.gather(*(connection.close() for connection in connections))
        raise
    return connections


async def _try_open(connection: McpConnection) -> None:
    try:
        await connection.open()
    except McpConnectError as error:
        connection.error = error
