"""MCP servers as sources of tools.

    server = McpServer(alias="files", command=["python", "-m", "agentkit_tools.files", "docs"])
    async with server.connect() as files:
        toolset = Toolset(files.tools)

server.py      McpServer: how to reach one, a value
connection.py  McpConnection: connected, listed, called, started again; starting.py, connecting.py
lists.py       what it offers: relisting.py (when it is asked), listing_cache.py (what is kept on
               disk), offered.py, changes.py (how it differs); mcp_tool.py: as it was shown
link.py        one life of a session, and the task that owns it; stdio.py, process.py, wire.py
listing.py     all pages, each tool judged by itself; names.py: legal everywhere
calling.py     one call: rounds.py, callbacks.py, asking.py (what its server asks), logs.py
results.py     what a model reads and sees of a result; structured.py, outputs.py
trust/         what is odd about a server's words, and who has approved them
reading.py     resources and prompts: resources.py, prompts.py, paging.py
Importing this package does not load the MCP SDK.
"""

from __future__ import annotations

from agentkit.toolset.mcp.connecting import connect_all
from agentkit.toolset.mcp.connection import McpConnection, McpTool
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.mcp.trust import Trust

__all__ = ["McpConnection", "McpServer", "McpTool", "Trust", "connect_all"]
