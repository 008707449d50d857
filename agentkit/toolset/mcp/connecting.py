"""Connecting several servers at once, and ending them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.connection import McpConnection
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.outlast import outlast


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
        await close_all(connections)
        raise
    return connections


async def close_all(connections: Collection[McpConnection]) -> None:
    """End connections at the same time. Returns when all servers are gone, also if cancelled
    meanwhile."""

    def hurry() -> None:
        for connection in connections:
            connection.hurry()

    # Nobody cancels these: a task that is cancelled before its first step never takes it, and its
    # server would be left.
    closing = [asyncio.create_task(connection.close()) for connection in connections]
    cancelled: asyncio.CancelledError | None = None
    for task in closing:
        cancelled = await outlast(task, on_cancel=hurry) or cancelled
    for task in closing:
        task.result()
    if cancelled is not None:
        raise cancelled


async def _try_open(connection: McpConnection) -> None:
    try:
        await connection.open()
    except McpConnectError as error:
        connection.error = error
