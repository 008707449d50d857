"""The MCP servers of an open team, and whose tools are whose."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping

from agentkit.toolset import McpServer, McpTool, Tool, ToolSpec
from agentkit.toolset.mcp import McpConnection
from agentkit.toolset.mcp.lists.names import alias_of


class ServedTools:
    """Connections by alias. A tool's name says which server answers its calls."""

    def __init__(self, connections: Iterable[McpConnection]) -> None:
        self._by_alias = {each.server.alias: each for each in connections}
        self.adds_tools = any(each.server.on_change == "append" for each in self._by_alias.values())
        """Whether conversations may get tools later, which a server adds."""

    @property
    def by_server(self) -> Mapping[McpServer, tuple[Tool, ...]]:
        """What each server shows new conversations now."""
        return {each.server: _in_front(each) for each in self._by_alias.values()}

    @property
    def tools(self) -> Iterator[McpTool]:
        """What the servers show new conversations now."""
        return (tool for each in self._by_alias.values() for tool in _in_front(each))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Of all servers, in their order."""
        return tuple(self._by_alias)

    @property
    def known_aliases(self) -> frozenset[str]:
        """Of the servers whose lists are known."""
        known = self._by_alias.items()
        return frozenset(alias for alias, each in known if each.offered.is_known)

    @property
    def revisions(self) -> tuple[int, ...]:
        """How often each list has changed. Equal ones: nothing has."""
        return tuple(each.offered.revision for each in self._by_alias.values())

    def of(self, aliases: Collection[str]) -> Iterator[McpConnection]:
        """Yield the connections with these aliases, in the order of the servers."""
        return (each for alias, each in self._by_alias.items() if alias in aliases)

    def deferred(self, aliases: Collection[str]) -> Iterator[McpTool]:
        """Yield the tools of these servers that are shown only when they are found."""
        for connection in self.of(aliases):
            if connection.server.may_defer:
                yield from (tool for tool in connection.tools if tool.policy.defer_loading)

    def tool(self, spec: ToolSpec) -> McpTool | None:
        """Return what answers the calls of a tool that a conversation was shown.

        Also of one that its server does not offer now: its calls say so. None: it is no server's.
        """
        connection = self._by_alias.get(alias_of(spec.name))
        return None if connection is None else McpTool(connection, spec)

    async def recheck(self, aliases: Collection[str] | None = None) -> None:
        """Learn what servers offer now, if that may have changed; of all servers by default."""
        wanted = self._by_alias if aliases is None else aliases
        checks = [each.recheck() for each in self.of(wanted) if each.may_have_changed]
        if checks:
            await asyncio.gather(*checks)


def _in_front(connection: McpConnection) -> tuple[McpTool, ...]:
    if not connection.server.may_defer:
        return connection.tools
    return tuple(tool for tool in connection.tools if not tool.policy.defer_loading)
