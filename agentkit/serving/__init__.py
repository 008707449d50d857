"""Agents as MCP servers: any client can ask an agent, as it calls any other tool.

    server = serve_mcp(Desk())
    await run_stdio(server)         # or: http_app(server, token=...), or agentkit mcp serve

server.py         serve_mcp: the server and its two tools
tools.py          what clients read of them: names, descriptions, schemas
calls.py          a call from its arguments to its result; drive.py: the run beside it
approval.py       how a client asks its user
conversations.py  sessions and waiting runs, bounded
results.py        outcomes as MCP results
opened.py         the agent's own servers, connected once
stdio.py, http.py how it is reached
Importing this package does not load the MCP SDK.
"""

from __future__ import annotations

from agentkit.serving.http import http_app
from agentkit.serving.server import serve_mcp
from agentkit.serving.stdio import run_stdio

__all__ = ["http_app", "run_stdio", "serve_mcp"]
