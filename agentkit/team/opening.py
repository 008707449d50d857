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
from agentkit.toolset import Tool, Toolset
from agentkit.toolset.mcp import McpConnection, McpServer, connect_all

_LOGGER = logging.getLogger("agentkit.mcp")

ToolsByServer = Mapping[McpServer, tuple[Tool, ...]]


@asynccontextmanager
async def open_team(plan: Plan) -> AsyncGenerator[Team, None]:
    """Connect the team's servers, and end them afterwards.

    Raises:
        McpConnectError: a server cannot be used.
        ConfigurationError: the parts of the team do not fit together.
    """
    connections = await _connect(plan.all_servers)
    logged: set[tuple[str, str]] = set()
    try:
        for connection in connections:
            if connection.error is not None:
                # Without its tools the agent would run, and quietly do worse.
                raise connection.error
        _log_warnings(connections, logged)
        yield build_team(plan, {each.server: each.tools for each in connections})
    finally:
        _log_warnings(connections, logged)
        await asyncio.gather(*(connection.close() for connection in connections))


def build_team(plan: Plan, served: ToolsByServer) -> Team:
    """Return the team. Pure: the order in which tools were given or listed does not matter.

    Raises:
        ToolNameConflict: two different tools of the team have one name.
    """
    toolset = Toolset(tool for part in plan.everyone() for tool in _own_tools(part, served))
    return Team(root=_member(plan, plan, toolset, served, above=None))


async def _connect(servers: tuple[McpServer, ...]) -> list[McpConnection]:
    try:
        return await connect_all(servers)
    except ValueError as error:
        raise ConfigurationError(
            f"the MCP servers of the team do not fit together: {error}"
        ) from error


def _log_warnings(connections: list[McpConnection], logged: set[tuple[str, str]]) -> None:
    """Log what was odd about the servers and is not in `logged` yet."""
    for connection in connections:
        for warning in connection.warnings:
            entry = (connection.server.alias, warning)
            if entry not in logged:
                logged.add(entry)
                _LOGGER.warning("MCP server %r: %s", *entry)


def _own_tools(plan: Plan, served: ToolsByServer) -> tuple[Tool, ...]:
    return (*plan.tools, *(tool for server in plan.servers for tool in served[server]))


def _member(
    plan: Plan, root: Plan, team: Toolset, served: ToolsByServer, above: Context | None
) -> Member:
    member = _alone(plan, root, team, served, above)
    if not plan.others:
        return member
    others = (_alone(other, root, team, served, above) for other in plan.others)
    desk: dict[str, Member] = {}
    # Each knows all the others, so they share what is filled at the end.
    members = [replace(each, desk=desk) for each in (member, *others)]
    desk.update({each.name: each for each in members})
    return members[0]


def _alone(
    plan: Plan, root: Plan, team: Toolset, served: ToolsByServer, above: Context | None
) -> Member:
    own = Toolset(_own_tools(plan, served))
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
        children={child.name: _member(child, root, team, served, front) for child in plan.children},
        tenant=plan.tenant,
        known=plan.known,
        builder=builder,
        forked=plan.forked,
    )
