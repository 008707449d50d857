"""Makes a team ready to run: connects its MCP servers and builds one toolset for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from agentkit.context import Context
from agentkit.errors import ConfigurationError
from agentkit.team.front import FrontBuilder
from agentkit.team.members import Member, Team
from agentkit.team.plan import Plan
from agentkit.team.served import ServedTools
from agentkit.toolset import Tool, Toolset, ToolsetError
from agentkit.toolset.mcp import McpConnection, McpServer
from agentkit.toolset.mcp.connecting import close_all

_LOGGER = logging.getLogger("agentkit.mcp")

ToolsByServer = Mapping[McpServer, tuple[Tool, ...]]


@asynccontextmanager
async def open_team(plan: Plan) -> AsyncGenerator[Team, None]:
    """Connect the team's servers, and end them afterwards.

    Raises:
        McpConnectError: a server that is required cannot be used. Nobody waits for the others then.
        ConfigurationError: the parts of the team do not fit together.
    """
    connections = _connections(plan.all_servers)
    logged: set[tuple[str, str]] = set()
    try:
        await _open(connections)
        _log_warnings(connections, logged)
        _log_look_alikes(connections)
        yield OpenTeam(plan, ServedTools(connections)).team
    finally:
        _log_warnings(connections, logged)
        await close_all(connections)


class OpenTeam:
    """A team whose servers are connected: what new runs begin with follows what they offer."""

    def __init__(self, plan: Plan, served: ServedTools) -> None:
        self._plan = plan
        self._served = served
        self._revisions = served.revisions
        self.team = self._built()

    async def latest(self) -> Team:
        """Return the team for a run that begins now."""
        await self._served.recheck()
        if self._served.revisions != self._revisions:
            self._revisions = self._served.revisions
            try:
                self.team = self._built()
            except ToolsetError as error:
                _LOGGER.warning("new runs begin with the tools of before: %s", error)
        return self.team

    def _built(self) -> Team:
        team = build_team(self._plan, self._served.by_server, self._served)
        return replace(team, latest=self.latest)


def build_team(plan: Plan, served: ToolsByServer, connected: ServedTools | None = None) -> Team:
    """Return the team. Pure: the order in which tools were given or listed does not matter.

    Args:
        plan: the team.
        served: the tools of its servers.
        connected: the servers themselves, where they are.

    Raises:
        ToolNameConflict: two different tools of the team have one name.
    """
    toolset = Toolset(tool for part in plan.everyone() for tool in _own_tools(part, served))
    if deferred := [tool for part in plan.everyone() for tool in part.deferred]:
        Toolset((*toolset, *deferred))  # or two of them have one name
    root = _member(plan, plan, toolset, served, above=None, connected=connected)
    return Team(root=root)


def _connections(servers: tuple[McpServer, ...]) -> list[McpConnection]:
    aliases = [server.alias for server in servers]
    if len(set(aliases)) != len(aliases):
        raise ConfigurationError(
            "the MCP servers of the team do not fit together: aliases must be unique, not "
            f"{aliases!r}"
        )
    return [server.connect() for server in servers]


async def _open(connections: list[McpConnection]) -> None:
    """Connect all in parallel; the first error of one that is required ends that."""
    tasks = [asyncio.create_task(connection.open()) for connection in connections]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        # In the order of the servers, so that of two errors the same one is raised each time.
        if not task.cancelled():
            task.result()


def _log_warnings(connections: list[McpConnection], logged: set[tuple[str, str]]) -> None:
    """Log what was odd about the servers and is not in `logged` yet."""
    for connection in connections:
        for warning in connection.warnings:
            entry = (connection.server.alias, warning)
            if entry not in logged:
                logged.add(entry)
                _LOGGER.warning("MCP server %r: %s", *entry)


def _log_look_alikes(connections: list[McpConnection]) -> None:
    """Log what is odd about the tools of servers beside each other.

    It takes a while. Where no server was asked for its list, that was done when one was.
    """
    if all(each.about is None for each in connections):
        return
    from agentkit.toolset.mcp.trust.look_alikes import between

    tools = {
        each.server.alias: [(tool.original_name, tool.spec) for tool in each.tools]
        for each in connections
    }
    for flag in between(tools):
        if flag.severity != "note":
            _LOGGER.warning("MCP servers beside each other: %s", flag)


def _own_tools(plan: Plan, served: ToolsByServer) -> tuple[Tool, ...]:
    return (*plan.tools, *(tool for server in plan.servers for tool in served[server]))


def _member(
    plan: Plan,
    root: Plan,
    team: Toolset,
    served: ToolsByServer,
    above: Context | None,
    connected: ServedTools | None,
) -> Member:
    member = _alone(plan, root, team, served, above, connected)
    if not plan.others:
        return member
    others = (_alone(other, root, team, served, above, connected) for other in plan.others)
    desk: dict[str, Member] = {}
    # Each knows all the others, so they share what is filled at the end.
    members = [replace(each, desk=desk) for each in (member, *others)]
    desk.update({each.name: each for each in members})
    return members[0]


def _alone(
    plan: Plan,
    root: Plan,
    team: Toolset,
    served: ToolsByServer,
    above: Context | None,
    connected: ServedTools | None,
) -> Member:
    # What another of the team shows in front is no secret: whoever defers it just calls it.
    shown = (each for each in plan.deferred if each.spec.name in team)
    own = Toolset((*_own_tools(plan, served), *shown))
    builder = FrontBuilder(plan, root, team, above)
    front = builder.front(None if plan.known is None else plan.known.edition)
    return Member(
        agent=plan.agent,
        name=plan.name,
        model=plan.model,
        output=plan.output,
        toolset=own.union(team),
        own_tools=frozenset(own.names),
        front=front,
        sources=builder.sources(front),
        children={
            child.name: _member(child, root, team, served, front, connected)
            for child in plan.children
        },
        tenant=plan.tenant,
        known=plan.known,
        builder=builder,
        forked=plan.forked,
        deferred={tool.spec.name: tool for tool in plan.deferred},
        served=connected,
        aliases=frozenset(server.alias for server in plan.servers),
    )
