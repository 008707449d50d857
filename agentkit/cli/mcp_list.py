"""`agentkit mcp list`: what servers offer, and what is odd about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit.cli import options
from agentkit.cli.failures import failures_as_exit_codes
from agentkit.cli.mcp_check import check_lines, checked, is_refused
from agentkit.cli.mcp_servers import Command, Config, Header, Url, Where, connected, servers_of

if TYPE_CHECKING:
    from agentkit.toolset.mcp import McpConnection, McpServer, McpTool
    from agentkit.toolset.mcp.trust import Flag


def list_tools(
    where: Where = None,
    command: Command = None,
    url: Url = None,
    header: Header = None,
    config: Config = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what providers make of the tools.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Connect MCP servers, and list their tools with what is odd about them.

    Exit code 1: a server could not be connected, or with --check: a provider would refuse a tool.
    """
    with failures_as_exit_codes():
        servers = servers_of(where, command, url, header, config)
        found = asyncio.run(_listed(servers, with_check=check))
        if as_json:
            typer.echo(json.dumps(found, indent=2))
        else:
            for line in _lines(found):
                typer.echo(line)
        tools = [tool for server in found["servers"] for tool in server["tools"]]
        is_broken = any(server["error"] for server in found["servers"])
        if is_broken or any(is_refused(tool.get("providers", {})) for tool in tools):
            raise typer.Exit(1)


async def _listed(servers: tuple[McpServer, ...], *, with_check: bool) -> dict[str, Any]:
    from agentkit.toolset.mcp.trust.look_alikes import between

    async with connected(servers) as connections:
        flags = between(
            {
                each.server.alias: [(tool.original_name, tool.spec) for tool in each.tools]
                for each in connections
            }
        )
        return {
            "servers": [_server(each, with_check=with_check) for each in connections],
            "flags": [_flag(flag) for flag in flags],
        }


def _server(connection: McpConnection, *, with_check: bool) -> dict[str, Any]:
    from agentkit.toolset.mcp.trust.scan import flags_of_text

    about, server = connection.about, connection.server
    flags = flags_of_text(about.instructions, "its instructions") if about else ()
    return {
        "alias": server.alias,
        "transport": "stdio" if server.command else server.transport if server.url else "memory",
        "about": None if about is None else asdict(about),
        "error": None if connection.error is None else str(connection.error),
        "warnings": list(connection.warnings),
        "flags": [_flag(flag) for flag in flags],
        "tools": [_tool(tool, with_check=with_check) for tool in connection.tools],
    }


def _tool(tool: McpTool, *, with_check: bool) -> dict[str, Any]:
    from agentkit.toolset.mcp.trust.scan import flags_of_tool

    spec = tool.spec
    flags = flags_of_tool(tool.original_name, spec.description, spec.parameters)
    return {
        "name": spec.name,
        "original_name": tool.original_name,
        "description": spec.description,
        "parameters": spec.parameters,
        "flags": [_flag(flag) for flag in flags],
        **({"providers": checked(spec)} if with_check else {}),
    }


def _flag(flag: Flag) -> dict[str, str]:
    return {
        "severity": flag.severity,
        "kind": flag.kind,
        "where": flag.where,
        "what": flag.what,
    }


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """Servers with their tools; what is odd stands below what it is about."""
    from agentkit.toolset.mcp.trust import visible

    names = [tool["name"] for server in found["servers"] for tool in server["tools"]]
    width = max(map(len, names), default=0)
    for server in found["servers"]:
        yield _head(server)
        for tool in server["tools"]:
            summary = visible(tool["description"].strip().partition("\n")[0])
            yield f"  {tool['name']:<{width}}  {summary}".rstrip()
            for flag in tool["flags"]:
                yield f"    {_said(flag)}"
            for line in check_lines(tool.get("providers", {})):
                yield f"    {visible(line)}"
        flagged = {_said(flag) for tool in server["tools"] for flag in tool["flags"]}
        for flag in server["flags"]:
            yield f"  {_said(flag)}"
        for warning in server["warnings"]:
            is_said = server["error"] is not None and warning.startswith("is not there")
            if warning not in flagged and not is_said:
                yield f"  {visible(warning)}".replace("\n", "\n    ")
    for flag in found["flags"]:
        yield _said(flag)


def _head(server: dict[str, Any]) -> str:
    from agentkit.toolset.mcp.trust import visible

    about = server["about"]
    if about is None:
        return f"{server['alias']}  not connected"
    who = visible(f"{about['name']} {about['version']}").strip() or "does not say what it is"
    return f"{server['alias']}  {who}, {server['transport']}, protocol {about['protocol']}"


def _said(flag: dict[str, str]) -> str:
    return f"{flag['severity']}: {flag['where']}: {flag['what']}"
