"""What a connection reads of its server besides tools: resources and prompts.

Most runs read none, so what does it is loaded when it is wanted.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from agentkit.toolset.errors import McpRequestError
from agentkit.toolset.mcp.lists.paging import Ask
from agentkit.toolset.mcp.server import McpServer

if TYPE_CHECKING:
    from agentkit.toolset.mcp.content.prompts import McpPrompt, PromptText
    from agentkit.toolset.mcp.content.resources import McpResource, McpTemplate, ResourcePart

_LOGGER = logging.getLogger("agentkit.mcp")
_METHOD_NOT_FOUND = -32601

Member = TypeVar("Member")


class ReadsContent:
    """Resources and prompts, of whoever can ask a server.

    All methods raise `McpConnectError` where the server cannot be reached, and `McpRequestError`
    where it answers with an error. What they return is the server's word, and untrusted.
    """

    server: McpServer

    @abstractmethod
    async def ask(self, method: str, params: dict[str, object]) -> Mapping[str, object]:
        """Send a request and return its raw result."""

    async def resources(self) -> tuple[McpResource, ...]:
        """Return all resources by their URIs, in code-point order; none if it has none."""
        from agentkit.toolset.mcp.content.resources import list_resources

        return await self._listed(list_resources)

    async def resource_templates(self) -> tuple[McpTemplate, ...]:
        """Return the patterns of URIs that it can read, in code-point order."""
        from agentkit.toolset.mcp.content.resources import list_templates

        return await self._listed(list_templates)

    async def read_resource(self, uri: str) -> tuple[ResourcePart, ...]:
        """Read a resource by its URI: one that was listed, or that a template or a result names."""
        from agentkit.toolset.mcp.content.resources import read_resource

        return await read_resource(self.ask, uri)

    async def prompts(self) -> tuple[McpPrompt, ...]:
        """Return all prompts by their names, in code-point order; none if it has none."""
        from agentkit.toolset.mcp.content.prompts import list_prompts

        return await self._listed(list_prompts)

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> PromptText:
        """Have the server fill in a prompt."""
        from agentkit.toolset.mcp.content.prompts import get_prompt

        return await get_prompt(self.ask, name, arguments or {})

    async def _listed(
        self, list_: Callable[[Ask, list[str]], Awaitable[tuple[Member, ...]]]
    ) -> tuple[Member, ...]:
        warnings: list[str] = []
        try:
            return await list_(self.ask, warnings)
        except McpRequestError as error:
            if error.code == _METHOD_NOT_FOUND:
                return ()
            raise
        finally:
            for warning in warnings:
                _LOGGER.warning("MCP server %r: %s", self.server.alias, warning)
