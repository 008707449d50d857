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
from agentkit.cli.mcp_servers import echo_theirs

if TYPE_CHECKING:
    from agentkit.cli.agents import AnyAgent
    from agentkit.toolset import ToolOutput
    from agentkit.toolset.mcp import McpTool

mcp = typer.Typer(no_args_is_help=True, help="MCP servers: their tools, and whether to trust them.")
mcp.command("list")(list_tools)


@mcp.command()
def call(
    where: options.Where,
    tool: Annotated[
        str, typer.Argument(help="Its name, as `agentkit mcp list` shows it, or the server's own.")
    ],
    arguments: Annotated[
        str, typer.Argument(help="One JSON object.", metavar="[ARGUMENTS]")
    ] = "{}",
    as_json: options.AsJson = False,
) -> None:
    """Call one tool of an agent's MCP servers, and print its result.

    Exit code 1: the result is an error.
    """
    from agentkit.cli.agents import load_agent

    with failures_as_exit_codes():
        output = asyncio.run(_called(load_agent(where), tool, _object(arguments)))
        if as_json:
            typer.echo(json.dumps({"content": output.content, "is_error": output.is_error}))
        else:
            echo_theirs(output.content)
        if output.is_error:
            raise typer.Exit(1)


for _command in (lock, diff, resources, prompts):
    mcp.command()(_command)


def _object(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        fail(f"the arguments {text!r} are no JSON: {error}", code=2)
    if not isinstance(value, dict):
        fail(f"the arguments must be one JSON object, got {text!r}", code=2)
    return value


async def _called(agent: AnyAgent, name: str, arguments: Mapping[str, object]) -> ToolOutput:
    from agentkit.toolset import ToolContext

    async with _connected(agent) as tools:
        context: ToolContext[Any] = ToolContext(
            deps=agent.deps, agent=agent.name, run_id="command-line", call_id="command-line"
        )
        return await _named(tools, name).call(arguments, context)


def _named(tools: Mapping[str, McpTool], name: str) -> McpTool:
    """Return the tool of this name; of the server's own, where only one server has it."""
    if name in tools:
        return tools[name]
    found = [tool for tool in tools.values() if tool.original_name == name]
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(tool.spec.name for tool in found)
        fail(f"several MCP servers of this agent have a tool {name!r}; say which of: {which}")
    known = ", ".join(tools) or "none"
    fail(f"no MCP server of this agent has a tool {name!r}; there are: {known}")


@asynccontextmanager
async def _connected(agent: AnyAgent) -> AsyncIterator[dict[str, McpTool]]:
    """The tools of the team's servers, by name; the team need not have a model."""
    from agentkit.cli.plan.load import with_model
    from agentkit.team.opening import open_team
    from agentkit.team.plan import plan_team
    from agentkit.toolset.mcp import McpTool

    async with open_team(plan_team(with_model(agent))) as team:
        toolset = team.toolset
        found = [toolset.get(name) for name in toolset.names]
        yield {tool.spec.name: tool for tool in found if isinstance(tool, McpTool)}
