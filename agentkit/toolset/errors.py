"""Errors of the toolset.

ToolsetError
├── ToolDefinitionError   a tool cannot be built: its name, signature or schema is not usable
├── ToolNameConflict      two different tools want the same name in one toolset
├── McpConnectError       an MCP server did not start, did not answer, or could not list its tools
├── McpLockError          the file of approved MCP tools is missing, damaged, or cannot be written
├── McpRequestError       an MCP server answered a request for a resource or prompt with an error
└── ToolSignal            raised *by* a tool to answer the model; never leaves `Tool.call`
    ├── Retry             the model should correct its arguments and call again
    └── Failed            the tool cannot do it; calling again will not help

What a model does wrong (bad arguments, unknown names) is no exception: it becomes a `ToolOutput`
with `is_error`, which the model reads.
"""

from __future__ import annotations

from agentkit.errors import AgentkitError


class ToolsetError(AgentkitError):
    """Base class of all errors that this package raises on purpose."""


class ToolDefinitionError(ToolsetError, ValueError):
    """A tool cannot be built. The message names the tool and the fix."""


class ToolNameConflict(ToolsetError, ValueError):
    """Two different tools have one name. `sources` says where each comes from."""

    def __init__(self, name: str, sources: tuple[str, str]) -> None:
        first, second = sources
        super().__init__(
            f"two different tools are named {name!r}: one from {first}, one from {second}; "
            "rename one with @tool(name=...), or give the MCP servers different aliases"
        )
        self.name = name
        self.sources = sources


class McpConnectError(ToolsetError, ConnectionError):
    """An MCP server cannot be used. The message names it and ends with what it wrote to stderr."""

    def __init__(self, alias: str, problem: str) -> None:
        super().__init__(f"MCP server {alias!r} {problem}")
        self.alias = alias
        self.problem = problem


class McpLockError(ToolsetError, ValueError):
    """The file of approved MCP tools cannot be used. The message names it and the fix."""


class McpRequestError(ToolsetError):
    """An MCP server answered a request with an error, or with what cannot be read."""

    def __init__(self, problem: str, code: int | None = None) -> None:
        super().__init__(problem)
        self.code = code
        """The protocol's error code, if the server sent one."""


class ToolSignal(ToolsetError):
    """Base class of what a tool raises to answer the model in words of its own."""


class Suspended(BaseException):
    """Raised through a tool whose call waits for a person, in a run below. No failure.

    A `BaseException`, like `CancelledError`, so that a tool's own `except Exception` lets it pass.
    """


class Retry(ToolSignal):
    """Raised by a tool: the model should correct its arguments and call again."""


class Failed(ToolSignal):
    """Raised by a tool: it cannot be done, and calling again with the same intent will not help."""
