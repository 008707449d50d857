"""Changes are heard in both protocols, however the server is reached."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context as McpContext

from agentkit import Agent, McpServer
from agentkit.events import ToolsChanged
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable


def growing() -> MCPServer[Any]:
    """A server that gets a tool when it is asked to, and says so in the words of both protocols."""
    server = MCPServer[Any]("growing")

    def late(text: str) -> str:
        """Come late."""
        return f"late {text}"

    async def grow(context: McpContext[Any, Any]) -> str:
        """Get another tool."""
        server.add_tool(late)
        await context.notify_tools_changed()
        await context.request_context.session.send_tool_list_changed()
        return "grown"

    server.add_tool(grow)
    return server


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_an_added_tool_is_heard_of_and_called(protocol: Literal["auto", "legacy"]) -> None:
    """M22: in the protocol of 2026-07-28, waiting for the old notification hears nothing."""
    steps = [Call("s__grow"), Call("s__late", {"text": "but here"}), "done"]
    model = ScriptedModel(steps, takes_tools=True)
    server = McpServer(alias="s", server=growing(), protocol=protocol)
    async with Agent(model=model, tools=[server]).stream("x") as stream:
        events = [event async for event in stream if isinstance(event, ToolsChanged)]
    assert [(event.added, event.is_shown) for event in events] == [(("s__late",), True)]
    assert stream.result.messages[-2].results[0].content == "late but here"  # type: ignore[union-attr]
    assert_prefix_stable(model.calls)
