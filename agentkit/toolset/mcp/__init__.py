"""MCP servers as sources of tools.

    server = McpServer(alias="files", command=["python", "-m", "agentkit_tools.files", "docs"])
    async with server.connect() as files:
        toolset = Toolset(files.tools)

server.py      McpServer: how to reach one, a value; server_checks.py, server_keywords.py
connection.py  McpConnection: connected, listed, called, started again; starting.py, connecting.py
mcp_tool.py    one tool, as a conversation was shown it
links/         one life of a session, and the transports that carry it
lists/         what a server offers: fetched, judged, named, kept on disk, compared
calls/         one call: rounds, questions, progress, and what a model reads of the result
content/       resources and prompts
trust/         what is odd about a server's words, and who has approved them
Importing this package does not load the MCP SDK.
"""

from __future__ import annotations

from agentkit.toolset.mcp.connecting import connect_all
from agentkit.toolset.mcp.connection import McpConnection, McpTool
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.mcp.trust import Trust

__all__ = ["McpConnection", "McpServer", "McpTool", "Trust", "connect_all"]
