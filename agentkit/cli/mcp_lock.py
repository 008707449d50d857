"""`agentkit mcp lock`, `agentkit mcp diff`: what was approved of servers, and what differs now."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentkit.cli import options
from agentkit.cli.failures import fail, failures_as_exit_codes, say
from agentkit.cli.mcp_servers import ServerAlias, connected, only, servers_of

if TYPE_CHECKING:
    from agentkit.toolset.mcp import McpServer
    from agentkit.toolset.mcp.trust.diff import LockDifference
    from agentkit.toolset.mcp.trust.lock import McpLock
    from agentkit.toolset.tool import ToolSpec

_DEFAULT = "mcp.lock.json"

LockFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--lock",
        "-o",
        metavar="FILE",
        help=f"The lock; by default that of each server's Trust, else {_DEFAULT}.",
        show_default=False,
    ),
]


def lock(
    where: options.Where,
    file: LockFile = None,
    server: ServerAlias = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve without being asked.")] = False,
) -> None:
    """Approve the tools of an agent's MCP servers as they are now, after showing what is new.

    Exit code 1: it was not approved, or a server could not be connected. Nothing is written then.
    """
    with failures_as_exit_codes():
        for path, state in _states(where, file, server).items():
            if not state.differences and path.exists():
                say(f"{path} is up to date")
                continue
            for line in state.lines():
                typer.echo(line)
            if not yes:
                _ask(path)
            state.updated().write(path)
            say(f"wrote {path}")
            if state.unheld:
                say(
                    f"nothing holds {', '.join(state.unheld)} to it yet: give the McpServer "
                    f'trust=Trust(lock="{path}")'
                )


def diff(
    where: options.Where,
    file: LockFile = None,
    server: ServerAlias = None,
    as_json: options.AsJson = False,
) -> None:
    """Show how an agent's MCP servers differ from what was approved.

    Exit code 1: they differ, or a server could not be connected.
    """
    with failures_as_exit_codes():
        states = _states(where, file, server)
        for path in states:
            if not path.exists():
                say(f"there is no {path}: nothing is approved yet; write it with agentkit mcp lock")
        if as_json:
            typer.echo(
                json.dumps({"locks": [_as_json(*each) for each in states.items()]}, indent=2)
            )
        else:
            for state in states.values():
                for line in state.lines():
                    typer.echo(line)
        if any(state.differences for state in states.values()):
            raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _State:
    """One lock, and what the servers that it is for offer now: specs by alias and own name."""

    lock: McpLock
    offered: Mapping[str, Mapping[str, ToolSpec]]
    unheld: tuple[str, ...]
    """Aliases of servers whose `Trust` names no lock."""

    @property
    def differences(self) -> dict[str, LockDifference]:
        """By alias, where there is any."""
        from agentkit.toolset.mcp.trust.diff import compare

        found = {
            alias: compare(self.lock.approved(alias), specs)
            for alias, specs in self.offered.items()
        }
        return {alias: difference for alias, difference in found.items() if difference}

    def updated(self) -> McpLock:
        """The lock with all that is offered now."""
        lock = self.lock
        for alias, specs in self.offered.items():
            lock = lock.with_server(alias, specs.items())
        return lock

    def lines(self) -> Iterator[str]:
        """What differs: flags first, then what a model would read otherwise than before."""
        from agentkit.toolset.mcp.lists.describing import describe_change
        from agentkit.toolset.mcp.trust.scan import flags_of_tool

        for alias, difference in self.differences.items():
            before = self.lock.approved(alias)
            now = self.offered[alias]
            for kind in ("added", "changed", "removed"):
                for name in getattr(difference, kind):
                    old = before[name].spec("tool", "") if name in before else None
                    new = now.get(name)
                    yield f"{alias}: {name!r} {kind}"
                    if new is not None:
                        for flag in flags_of_tool(name, new.description, new.parameters):
                            yield str(flag)
                    yield describe_change(old, new)


def _as_json(path: Path, state: _State) -> dict[str, Any]:
    """A lock, and by alias the server's own names of the tools that differ."""
    return {
        "lock": str(path),
        "exists": path.exists(),
        "servers": {
            alias: {
                kind: list(getattr(difference, kind)) for kind in ("added", "changed", "removed")
            }
            for alias, difference in state.differences.items()
        },
    }


def _states(where: str, file: Path | None, alias: str | None) -> dict[Path, _State]:
    """Return the state of each lock that the agent's servers have, by path."""
    from agentkit.toolset.mcp.trust.lock import McpLock

    servers = only(servers_of(where, None, None, None), alias)
    offered = asyncio.run(_offered(servers))
    places: dict[Path, list[McpServer]] = {}
    for server in servers:
        path = file or Path(server.trust.lock or _DEFAULT)
        places.setdefault(path, []).append(server)
    return {
        path: _State(
            lock=McpLock.read(path) if path.exists() else McpLock(),
            offered={server.alias: offered[server.alias] for server in of_it},
            unheld=tuple(server.alias for server in of_it if server.trust.lock is None),
        )
        for path, of_it in places.items()
    }


async def _offered(servers: tuple[McpServer, ...]) -> dict[str, dict[str, ToolSpec]]:
    async with connected(servers, as_it_comes=True) as connections:
        if failed := [each.server.alias for each in connections if each.error is not None]:
            fail(f"cannot compare without: {', '.join(failed)}")
        return {
            each.server.alias: {tool.original_name: tool.spec for tool in each.tools}
            for each in connections
        }


def _ask(path: Path) -> None:
    if not sys.stdin.isatty():
        fail(f"nobody is here to approve it; read the above, and add --yes to write {path}")
    if not typer.confirm(f"Approve this in {path}?", err=True):
        fail("not approved, nothing was written")
