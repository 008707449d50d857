"""`agentkit mcp resources`, `agentkit mcp prompts`: what servers offer besides tools."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit.cli import options
from agentkit.cli.failures import fail, failures_as_exit_codes
from agentkit.cli.mcp_servers import (
    Command,
    Config,
    Header,
    ServerAlias,
    Url,
    Where,
    connected,
    echo_theirs,
    only,
    servers_of,
)

if TYPE_CHECKING:
    from agentkit.toolset.mcp import McpConnection, McpServer


def resources(
    where: Where = None,
    command: Command = None,
    url: Url = None,
    header: Header = None,
    config: Config = None,
    server: ServerAlias = None,
    read: Annotated[
        str | None, typer.Option("--read", metavar="URI", help="Print this resource instead.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the resources of MCP servers, or print one.

    Exit code 1: a server could not be connected, or refused.
    """

    async def listed(connection: McpConnection) -> list[dict[str, Any]]:
        found = [asdict(each) for each in await connection.resources()]
        found += [asdict(each) for each in await connection.resource_templates()]
        return [{"server": connection.server.alias, **each} for each in found]

    with failures_as_exit_codes():
        servers = only(servers_of(where, command, url, header, config), server)
        if read is not None:
            _print_resource(servers, read)
            return
        rows = _gathered(servers, listed)
        _print(rows, ("uri", "uri_template"), as_json)


def prompts(
    where: Where = None,
    command: Command = None,
    url: Url = None,
    header: Header = None,
    config: Config = None,
    server: ServerAlias = None,
    get: Annotated[
        str | None, typer.Option("--get", metavar="NAME", help="Print this prompt instead.")
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option("--argument", metavar="NAME=VALUE", help="For --get; can be repeated."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the prompts of MCP servers, or print one, filled in.

    Exit code 1: a server could not be connected, or refused.
    """

    async def listed(connection: McpConnection) -> list[dict[str, Any]]:
        found = await connection.prompts()
        return [{"server": connection.server.alias, **asdict(each)} for each in found]

    with failures_as_exit_codes():
        servers = only(servers_of(where, command, url, header, config), server)
        if get is not None:
            arguments = dict(map(_pair, argument or []))
            found = _of_one(servers, lambda each: each.prompt(get, arguments))
            echo_theirs(found.text)
            return
        rows = _gathered(servers, listed)
        _print(rows, ("name",), as_json)


def _gathered(
    servers: tuple[McpServer, ...],
    list_: Callable[[McpConnection], Awaitable[list[dict[str, Any]]]],
) -> list[dict[str, Any]]:
    """Rows of all servers. Ends the command where one cannot be connected."""

    async def rows() -> list[dict[str, Any]]:
        async with connected(servers) as connections:
            if any(each.error for each in connections):
                raise typer.Exit(1)
            return [row for each in connections for row in await list_(each)]

    return asyncio.run(rows())


def _of_one(servers: tuple[McpServer, ...], ask: Callable[[McpConnection], Awaitable[Any]]) -> Any:
    async def answer() -> Any:
        async with connected(servers) as connections:
            if any(each.error for each in connections):
                raise typer.Exit(1)
            return await ask(connections[0])

    if len(servers) != 1:
        fail("say which server with --server ALIAS", code=2)
    return asyncio.run(answer())


def _print_resource(servers: tuple[McpServer, ...], uri: str) -> None:
    for part in _of_one(servers, lambda each: each.read_resource(uri)):
        if part.text is None and sys.stdout.isatty():
            fail(
                f"{part.uri} is {len(part.data):,} bytes of {part.mime_type}; write them to a file"
            )
        echo_theirs(part.data if part.text is None else part.text)


def _print(rows: list[dict[str, Any]], keys: tuple[str, ...], as_json: bool) -> None:
    from agentkit.toolset.mcp.trust import visible

    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    named = [(next(row[key] for key in keys if key in row), row) for row in rows]
    width = min(60, max((len(name) for name, _ in named), default=0))
    for name, row in named:
        summary = " ".join(visible(row["description"] or row.get("title") or row["name"]).split())
        typer.echo(f"{row['server']}  {visible(name):<{width}}  {summary}".rstrip())
        for argument in row.get("arguments", ()):
            typer.echo(f"  {visible(_argument_line(argument))}")


def _argument_line(argument: dict[str, Any]) -> str:
    """A prompt's argument, as `--argument` takes it."""
    required = "required" if argument["is_required"] else "optional"
    about = " ".join(argument["description"].split())
    return f"{argument['name']}=...  {required}{': ' if about else ''}{about}"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"--argument {text!r} must be like name=value", code=2)
    return name, value
