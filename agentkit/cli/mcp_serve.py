"""`agentkit mcp serve`: an agent as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit.cli import options
from agentkit.cli.failures import fail, failures_as_exit_codes, say

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp

_SHUTDOWN_S = 2
"""How long open answers may go on after Ctrl-C."""


def serve(
    where: options.Where,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve over HTTP at this port (0 takes a free one); by default over stdio.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than loopback need --token-env.")
    ] = "127.0.0.1",
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Environment variable with the token that requests must bring."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name by which others reach the server; can be repeated."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The server's name; by default the agent's.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option(help="The tool's name; by default ask_<agent>.")
    ] = None,
    decide_tool: Annotated[
        bool,
        typer.Option(
            "--decide-tool",
            help="Have a second tool that answers calls which wait for approval. Only for clients "
            "that confirm calls with their user.",
        ),
    ] = False,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="URL",
            help="Where runs are kept: a file, sqlite:///..., postgresql://..., or none. By "
            "default $AGENTKIT_JOURNAL, the agent's own, or nowhere.",
        ),
    ] = None,
    model: options.Model = None,
) -> None:
    """Serve an agent to MCP clients: they ask it with one tool.

    Over stdio it serves one client, until that closes stdin.
    """
    from agentkit.cli.agents import load_agent
    from agentkit.cli.journals import VARIABLE, journal_to_write
    from agentkit.cli.prompts import prints_on_stderr

    if http is None and (token_env, allow_host, host) != (None, None, "127.0.0.1"):
        fail("--host, --token-env and --allow-host are for HTTP: add --http PORT", code=2)
    with failures_as_exit_codes():
        with prints_on_stderr():
            agent = load_agent(where, model=model)
            from agentkit.serving import http_app, serve_mcp

        place = journal or os.environ.get(VARIABLE) or ("none" if agent.journal is None else None)
        with journal_to_write(place, agent.journal) as kept:
            server = serve_mcp(agent, name=name, tool=tool, decide_tool=decide_tool, journal=kept)
            if http is None:
                _serve_stdio(server)
                return
            token = _token(token_env, host)
            app = http_app(server, token=token, hosts=_names(host, allow_host or []))
            _serve_http(app, host, http)


def _serve_stdio(server: Server[Any]) -> None:
    from agentkit.serving import run_stdio

    asyncio.run(run_stdio(server))


def _token(variable: str | None, host: str) -> str | None:
    from agentkit.serving.http import is_loopback

    if variable is None:
        if not is_loopback(host):
            fail(
                f"everybody who reaches {host} could ask the agent; name the environment variable "
                "that has a token with --token-env, or listen on 127.0.0.1",
                code=2,
            )
        return None
    token = os.environ.get(variable, "")
    if not token:
        fail(f"the environment variable {variable} of --token-env is not set, or empty", code=2)
    return token


def _names(host: str, given: list[str]) -> list[str]:
    """Return by which names others reach an address."""
    from agentkit.serving.http import is_loopback

    if given or is_loopback(host):
        return given
    if host in ("0.0.0.0", "::"):
        fail(f"{host} is no name that others use; give theirs with --allow-host", code=2)
    return [f"[{host}]" if ":" in host else host]


def _serve_http(app: ASGIApp, host: str, port: int) -> None:
    import uvicorn

    from agentkit.cli.listening import listening_socket, url_of

    with listening_socket(host, port) as listener:
        say(f"serving at {url_of(listener)}/mcp (Ctrl-C stops)")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S)
        # uvicorn raises the interrupt again after a clean shutdown; here it is the normal end.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
