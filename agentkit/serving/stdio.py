"""A served agent over the process's stdin and stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server import Server


async def run_stdio(server: Server[Any]) -> None:
    """Serve one client until it closes stdin.

    What the agent and its tools print goes to stderr, so that it cannot damage the protocol.
    """
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
