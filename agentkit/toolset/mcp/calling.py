"""Making one call of an MCP server's tool, from the arguments to what the model reads.

Whatever goes wrong is an answer for the model; only cancellation is raised. A call is never sent
twice by itself: once it was written, nobody knows whether it had an effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.link import McpLink
from agentkit.toolset.mcp.results import cut, to_tool_output
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.tool import ToolOutput


async def make_call(
    server: McpServer,
    live_link: Callable[[], Awaitable[McpLink]],
    name: str,
    arguments: Mapping[str, object],
) -> ToolOutput:
    """Call a tool and answer with its result.

    Args:
        server: whose tool it is.
        live_link: returns a link that can be used, started anew if need be.
        name: the server's own name of the tool.
        arguments: as the model gave them.
    """
    try:
        canonical_json({"name": name, "arguments": dict(arguments)})
        link = await live_link()
    except ValueError as error:
        return ToolOutput.error(f"The call cannot be sent: {error}.")
    except McpConnectError as error:
        return ToolOutput.error(f"{error}. The call was not sent.", may_pass=True)
    params: dict[str, object] = {"name": name, "arguments": dict(arguments)}
    try:
        result = await link.request("tools/call", params, server.call_timeout_s)
    except Exception as error:
        # Whatever the SDK raises: the call may have reached the server, and the model must know.
        problem = await _explain(error, link, server)
        return ToolOutput.error(cut(problem, server.max_result_chars), may_pass=True)
    return to_tool_output(result, server.max_result_chars)


async def _explain(error: Exception, link: McpLink, server: McpServer) -> str:
    """What to tell the model about a call that got no result."""
    from mcp import MCPError
    from mcp_types import REQUEST_TIMEOUT

    who = f"MCP server {server.alias!r}"
    if not link.is_alive:
        return (
            f"{who} {await link.problem()}. Whether the call had an effect is unknown; "
            "the next call starts the server again."
        )
    if not isinstance(error, MCPError):
        return f"{who} could not be asked: {type(error).__name__}: {error}"
    if error.code == REQUEST_TIMEOUT:
        return (
            f"{who} did not answer within {server.call_timeout_s:g} s. "
            "Whether the call had an effect is unknown."
        )
    return f"{who} answered with an error: {error.message} (code {error.code})."
