"""Tools: what a model may call, and what happens when it does.

tool.py      the values: ToolSpec, ToolOutput, ToolContext, the Tool protocol
function.py  @tool, a Python function as a tool (signature.py, schema.py, results.py are its steps)
canonical.py one byte form for schemas; toolset.py: the sorted, pinned, hashed set
policy.py    how calls are handled: approval, retries, what may be run again
execute.py   runs the calls of one turn, in parallel, results in call order; failures.py logs
caller.py    what a running call may ask of its run; forms.py: the values that servers ask for
attachments.py  images and documents, by their bytes
mcp/         MCP servers as sources of tools, from the process up to the results
Importing this package loads neither the MCP SDK nor pydantic; they load when first used.
"""

from __future__ import annotations

from agentkit.toolset.canonical import canonical_json, canonical_schema
from agentkit.toolset.errors import (
    Failed,
    McpConnectError,
    Retry,
    Suspended,
    ToolDefinitionError,
    ToolNameConflict,
    ToolsetError,
)
from agentkit.toolset.execute import Call, execute_calls
from agentkit.toolset.function import FunctionTool, tool
from agentkit.toolset.mcp import McpConnection, McpServer, McpTool, connect_all
from agentkit.toolset.policy import HasPolicy, ToolPolicy, policy_of
from agentkit.toolset.tool import Tool, ToolContext, ToolOutput, ToolSpec
from agentkit.toolset.toolset import Toolset

__all__ = [
    "Call",
    "Failed",
    "FunctionTool",
    "HasPolicy",
    "McpConnectError",
    "McpConnection",
    "McpServer",
    "McpTool",
    "Retry",
    "Suspended",
    "Tool",
    "ToolContext",
    "ToolDefinitionError",
    "ToolNameConflict",
    "ToolOutput",
    "ToolPolicy",
    "ToolSpec",
    "Toolset",
    "ToolsetError",
    "canonical_json",
    "canonical_schema",
    "connect_all",
    "execute_calls",
    "policy_of",
    "tool",
]
