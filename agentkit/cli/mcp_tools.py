"""`agentkit mcp`: the MCP servers of an agent, without a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit.cli import options
from agentkit.cli.failures import fail, failures_as_exit_codes
from agentkit.cli.mcp_content import prompts, resources
from agentkit.cli.mcp_list import list_tools
from agentkit.cli.mcp_lock import diff, lock
from agentkit.cli.mcp_servers import (
    Command,
    Config,
    Header,
    Url,
    connected,
    echo_theirs,
    servers_of,
)

if TYPE_CHECKING:
    from agentkit.cli.agents import AnyAgent
    from agentkit.toolset import ToolContext, ToolOutput
    from agentkit.toolset.mcp import McpServer, McpTool

mcp = typer.Typer(no_args_is_help=True, help="MCP servers: their tools, and whether to trust them.")
mcp.command("list")(list_tools)


@mcp.command()
def call(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODULE:AGENT] TOOL [ARGUMENTS]",
            help="The agent, unless another option says whose tool it is; the tool, as `agentkit "
            "mcp list` shows it, or by the server's own name; and one JSON object.",
            show_default=False,
        ),
    ],
    command: Command = None,
    url: Url = None,
    header: Header = None,
    config: Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Call one tool of an agent's MCP servers, or of a server, and print its result.

    Exit code 1: the result is an error.
    """
    is_named = [command, url, config] != [None, None, None]
    where, tool, arguments = _parts(words, has_agent=not is_named)
    from agentkit.cli.agents import load_agent

    with failures_as_exit_codes():
        given = _object(arguments)
        if is_named:
            servers = servers_of(None, command, url, header, config)
            output = asyncio.run(_called_at(servers, tool, given))
        else:
            if header:
                fail("--header is for --url", code=2)
            output = asyncio.run(_called(load_agent(where), tool, given))
        if as_json:
            typer.echo(json.dumps({"content": output.content, "is_error": output.is_error}))
        else:
            echo_theirs(output.content)
        if output.is_error:
            raise typer.Exit(1)


for _command in (lock, diff, resources, prompts):
    mcp.command()(_command)


def _parts(words: list[str], *, has_agent: bool) -> tuple[str, str, str]:
    """Return the agent (empty without one), the tool and its arguments."""
    wanted = ["MODULE:AGENT", "TOOL"] if has_agent else ["TOOL"]
    if not len(wanted) <= len(words) <= len(wanted) + 1:
        fail(f"give {' '.join(wanted)} and at most one JSON object, got {words!r}", code=2)
    where = words[0] if has_agent else ""
    tool, arguments = (*words[len(wanted) - 1 :], "{}")[:2]
    return where, tool, arguments


def _object(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        fail(f"the arguments {text!r} are no JSON: {error}", code=2)
    if not isinstance(value, dict):
        fail(f"the arguments must be one JSON object, got {text!r}", code=2)
    return value


async def _called(agent: AnyAgent, name: str, arguments: Mapping[str, object]) -> ToolOutput:
    async with _connected(agent) as tools:
        context = _context(agent.deps, agent.name)
        return await _named(tools, name, "of this agent").call(arguments, context)


async def _called_at(
    servers: tuple[McpServer, ...], name: str, arguments: Mapping[str, object]
) -> ToolOutput:
    async with connected(servers) as connections:
        tools = {tool.name: tool for each in connections for tool in each.tools}
        return await _named(tools, name, "named here").call(arguments, _context(None, "nobody"))


def _context(deps: object, agent: str) -> ToolContext[Any]:
    from agentkit.toolset import ToolContext

    return ToolContext(deps=deps, agent=agent, run_id="command-line", call_id="command-line")


def _named(tools: Mapping[str, McpTool], name: str, whose: str) -> McpTool:
    """Return the tool of this name; of the server's own, where only one server has it."""
    if name in tools:
        return tools[name]
    found = [tool for tool in tools.values() if tool.original_name == name]
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(tool.spec.name for tool in found)
        fail(f"several MCP servers {whose} have a tool {name!r}; say which of: {which}")
    known = ", ".join(tools) or "none"
    fail(f"no MCP server {whose} has a tool {name!r}; there are: {known}")


@asynccontextmanager
async def _connected(agent: AnyAgent) -> AsyncIterator[dict[str, McpTool]]:
    """The tools of the team's servers, by name; the team need not have a model."""
    from agentkit.cli.plan.load import with_model
    from agentkit.team.opening import open_team
    from agentkit.team.plan import plan_team
    from agentkit.toolset.mcp import McpTool

    plan = plan_team(with_model(agent))
    async with open_team(plan) as team:
        shown = [tool for tool in team.toolset if isinstance(tool, McpTool)]
        aliases = {server.alias for server in plan.all_servers}
        deferred = team.root.served.deferred(aliases) if team.root.served else ()
        yield {tool.spec.name: tool for tool in (*shown, *deferred)}
