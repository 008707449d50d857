"""One tool of an MCP server, as a conversation was shown it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.toolset.mcp.calls.results import cut
from agentkit.toolset.mcp.content.resource_tool import is_resource_tool, read_for_model
from agentkit.toolset.mcp.lists.names import final_names
from agentkit.toolset.mcp.server import EVERY_TOOL
from agentkit.toolset.policy import ToolPolicy
from agentkit.toolset.tool import ToolContext, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from agentkit.toolset.mcp.connection import McpConnection

_NO_POLICY = ToolPolicy()
_MOST_SCHEMA_CHARS = 4_000


class McpTool:
    """A pinned spec, and the server that answers its calls: with the tool as it is there now.

    The server may have changed the tool since, or offer it no more. Its calls then say so.
    """

    __slots__ = ("_connection", "_spec")

    def __init__(self, connection: McpConnection, spec: ToolSpec) -> None:
        self._connection = connection
        self._spec = spec

    @property
    def spec(self) -> ToolSpec:
        """The pinned spec under the final name."""
        return self._spec

    @property
    def name(self) -> str:
        """The final name, which a model is shown."""
        return self._spec.name

    @property
    def description(self) -> str:
        """As a model is shown it: the server's word."""
        return self._spec.description

    @property
    def alias(self) -> str:
        """The alias of its server."""
        return self._connection.server.alias

    @property
    def original_name(self) -> str:
        """The server's own name for the tool.

        Of a tool that the server does not list any more it may not be known; then it is what
        follows the alias in the final name.
        """
        listed = self._connection.offered.get(self._spec.name)
        return self._spec.name[len(self.alias) + 2 :] if listed is None else listed.original

    @property
    def policy(self) -> ToolPolicy:
        """How it is shown, and its calls are handled."""
        policy = self._given_policy
        return (
            replace(policy, defer_loading=True) if self._connection.server.defer_loading else policy
        )

    @property
    def _given_policy(self) -> ToolPolicy:
        policies = self._connection.server.policies
        listed = self._connection.offered.get(self._spec.name)
        if listed is not None and listed.original in policies:
            return policies[listed.original]
        default = policies.get(EVERY_TOOL, _NO_POLICY)
        if listed is not None:
            return default
        # Of one that is not listed: a call must not run without the approval that is meant for it.
        names = {final: name for name, final in final_names(self.alias, policies).items()}
        return policies[names[self._spec.name]] if self._spec.name in names else default

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Call the tool on its server."""
        connection, name = self._connection, self._spec.name
        if (problem := await connection.problem_with(name)) is not None:
            return problem
        listed = connection.offered.get(name)
        assert listed is not None, "the server offers it"
        if is_resource_tool(connection.server, listed):
            return await read_for_model(connection.server, connection.ask, arguments)
        output = await connection.call(listed.original, arguments, context.caller)
        now = connection.offered.get(name)
        if output.is_error and now is not None and now.spec.bytes != self._spec.bytes:
            content = f"{output.content}\n\n{_changed(now.spec)}"
            return replace(output, content=cut(content, connection.server.max_result_chars))
        return output

    def __repr__(self) -> str:
        return f"<MCP tool {self._spec.name!r} of {self.alias!r}>"


def _changed(now: ToolSpec) -> str:
    text = now.bytes.decode()
    if len(text) > _MOST_SCHEMA_CHARS:
        text = f"{text[:_MOST_SCHEMA_CHARS]}... (cut)"
    return (
        "The server has changed this tool since this conversation was shown it. As it is now: "
        f"{text}"
    )
