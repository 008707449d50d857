"""A tool of ours with which a model reads a server's resources, as its results name them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from agentkit.toolset.errors import McpConnectError, McpRequestError
from agentkit.toolset.mcp.calls.results import to_tool_output
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.tool import ToolOutput, ToolSpec

_NAME = "read_resource"
_DESCRIPTION = "Read a resource of this server by its URI, as results and other resources name it."
_PARAMETERS = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "such as docs://guide"}},
    "required": ["uri"],
    "additionalProperties": False,
}

Ask = Callable[[str, dict[str, object]], Awaitable[Mapping[str, object]]]


def with_resource_tool(server: McpServer, listing: Listing) -> Listing:
    """Return a listing with the tool, if it is wanted. One of that name of the server's stays.

    It is a tool like the others: in its place in the list, pinned, with a policy, and approved.
    """
    if not server.resource_tool:
        return listing
    if any(tool.original == _NAME for tool in listing.tools):
        warning = f"the server has a tool {_NAME!r} of its own, so `resource_tool` adds none"
        return replace(listing, warnings=(*listing.warnings, warning))
    added = ListedTool(original=_NAME, spec=_spec(server))
    tools = sorted((*listing.tools, added), key=lambda tool: tool.original)
    names = listing.all_names
    return replace(
        listing, tools=tuple(tools), all_names=None if names is None else names | {_NAME}
    )


def is_resource_tool(server: McpServer, listed: ListedTool) -> bool:
    """Whether a tool is ours, and not the server's."""
    is_named_so = server.resource_tool and listed.original == _NAME
    return is_named_so and listed.spec.bytes == _spec(server).bytes


async def read_for_model(
    server: McpServer, ask: Ask, arguments: Mapping[str, object]
) -> ToolOutput:
    """Answer a call of the tool. What a server refuses is an error that the model reads."""
    uri = arguments.get("uri")
    if not isinstance(uri, str) or not uri:
        return ToolOutput.error(
            f"The argument 'uri' must be a text that is not empty, not {uri!r}."
        )
    try:
        result = await ask("resources/read", {"uri": uri})
    except (McpConnectError, McpRequestError) as error:
        return ToolOutput.error(f"{error}.", may_pass=isinstance(error, McpConnectError))
    contents = result.get("contents")
    blocks = [
        {"type": "resource", "resource": content}
        for content in (contents if isinstance(contents, list) else [])
    ]
    if not blocks:
        return ToolOutput.error(f"The resource {uri!r} has no content.")
    return to_tool_output({"content": blocks}, server.max_result_chars, server.max_attachment_bytes)


def _spec(server: McpServer) -> ToolSpec:
    return ToolSpec(
        name=f"{server.alias}__{_NAME}",
        description=_DESCRIPTION,
        parameters=_PARAMETERS,
        source=f"MCP server {server.alias!r}",
    )
