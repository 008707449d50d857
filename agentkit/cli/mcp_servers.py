"""Which MCP servers a command is about, connected: those of an agent, or one that is named."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agentkit.cli.failures import fail, say

if TYPE_CHECKING:
    from agentkit.toolset.mcp import McpConnection, McpServer

Where: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:AGENT]",
        help="The agent whose servers it is about; not with --command, --url or --config.",
        show_default=False,
    ),
]
Command: TypeAlias = Annotated[
    str | None, typer.Option("--command", help="Start this server instead, over stdio.")
]
Url: TypeAlias = Annotated[
    str | None, typer.Option("--url", help="Call this server instead, over HTTP.")
]
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help='The servers of a JSON file with "mcpServers" instead.'
    ),
]
Header: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="Sent to --url; can be repeated."),
]

ServerAlias: TypeAlias = Annotated[
    str | None, typer.Option("--server", metavar="ALIAS", help="Only this server of the agent.")
]

_ALIAS = "server"
"""Of a server that is named on the command line."""


def servers_of(
    where: str | None,
    command: str | None,
    url: str | None,
    headers: list[str] | None,
    config: Path | None = None,
) -> tuple[McpServer, ...]:
    """Return the servers that the arguments name. Ends the command if they name none, or two.

    Raises:
        AgentkitError: there is no such agent, or its team does not fit together.
    """
    if [where, command, url, config].count(None) != 3:
        fail("give MODULE:AGENT, --command, --url or --config: one of them", code=2)
    if headers and url is None:
        fail("--header is for --url", code=2)
    if where is not None:
        return _of_agent(where)
    from agentkit.toolset.mcp import McpServer

    try:
        if config is not None:
            return _of_config(config)
        if command is not None:
            return (McpServer(alias=_ALIAS, command=shlex.split(command)),)
        return (McpServer(alias=_ALIAS, url=url, headers=dict(map(_header, headers or []))),)
    except (OSError, ValueError) as error:
        fail(str(error), code=2)


def only(servers: tuple[McpServer, ...], alias: str | None) -> tuple[McpServer, ...]:
    """Return the server with this alias; all of them without one. Ends the command if none has."""
    if alias is None:
        return servers
    if found := tuple(server for server in servers if server.alias == alias):
        return found
    known = ", ".join(server.alias for server in servers) or "none"
    fail(f"the agent has no MCP server {alias!r}; there are: {known}", code=2)


@asynccontextmanager
async def connected(
    servers: Iterable[McpServer], *, as_it_comes: bool = False
) -> AsyncIterator[list[McpConnection]]:
    """Connect servers, none from what is kept on disk. Those that fail are named on stderr.

    Args:
        servers: which.
        as_it_comes: whether to list also what is not trusted.
    """
    from agentkit.toolset.mcp.connecting import close_all, connect_all
    from agentkit.toolset.mcp.trust import Trust

    fresh = [replace(server, listing_ttl_s=0) for server in servers]
    if as_it_comes:
        fresh = [replace(server, trust=Trust()) for server in fresh]
    connections = await connect_all(fresh)
    try:
        for connection in connections:
            if connection.error is not None:
                say(f"error: {connection.error}")
        yield connections
    finally:
        await close_all(connections)


def echo_theirs(content: str | bytes) -> None:
    """Print what a server sent: what would steer a terminal spelt out there, else to the byte."""
    from agentkit.toolset.mcp.trust import visible

    if isinstance(content, str) and sys.stdout.isatty():
        content = visible(content)
    is_line = isinstance(content, str) and not content.endswith("\n")
    typer.echo(content, nl=is_line, color=True)  # else it takes out what it takes for colours


def _of_agent(where: str) -> tuple[McpServer, ...]:
    from agentkit.cli.agents import load_agent
    from agentkit.cli.plan.load import with_model
    from agentkit.cli.prompts import prints_on_stderr
    from agentkit.team.plan import plan_team

    with prints_on_stderr():
        servers = plan_team(with_model(load_agent(where))).all_servers
    if not servers:
        say("the agent has no MCP servers")
    return servers


def _of_config(path: Path) -> tuple[McpServer, ...]:
    from agentkit.toolset.mcp import McpServer

    with warnings.catch_warnings(record=True) as unused:
        warnings.simplefilter("always")
        servers = McpServer.from_config(path)
    for each in unused:
        say(f"warning: {each.message}")
    if not servers:
        say(f"{path} has no MCP servers")
    return servers


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        fail(f"--header {text.partition(' ')[0]!r} must be like 'Name: value'", code=2)
    return name.strip(), value.strip()
