"""From `my_app:MyAgent` to a team whose front can be laid out."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentkit import Agent
from agentkit.errors import ConfigurationError
from agentkit.team.members import Member, Team
from agentkit.team.opening import build_team, open_team
from agentkit.team.plan import plan_team
from agentkit.testing import ScriptedModel

AnyAgent = Agent[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A team, and what is not known of it."""

    team: Team
    missing: tuple[str, ...]
    """MCP servers whose tools are not known, because nothing was connected."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know."""
        servers = ", ".join(self.missing)
        missing = f"the tools of these MCP servers are missing: {servers}; --connect asks them"
        return (*([missing] if servers else []), *_own_models(self.team.root, self.team.root))


def _own_models(root: Member, member: Member) -> Iterator[str]:
    for child in member.children.values():
        if child.model is not root.model:
            yield (
                f"subagent {child.name!r} has a model of its own, {child.model.label}, and shares "
                "no cache with the root; it is planned here as if it had the root's"
            )
        yield from _own_models(root, child)


def load_agent(where: str) -> AnyAgent:
    """Return the agent at `module:name`: an instance, or what a class or function makes.

    Raises:
        ConfigurationError: there is none, or it cannot be made without arguments.
    """
    module_name, colon, name = where.partition(":")
    if not (module_name and colon and name):
        raise ConfigurationError(f"{where!r} names no agent; write my_app:MyAgent")
    module = _module(module_name)
    if not hasattr(module, name):
        raise ConfigurationError(_no_such_name(module, name))
    found = getattr(module, name)
    if isinstance(found, Agent):
        return _with_model(found)
    if not callable(found):
        raise ConfigurationError(f"{where} is {found!r}, and no agent")
    try:
        made = found()
    except TypeError as error:
        raise ConfigurationError(
            f"{where} cannot be made without arguments ({error}); name an instance, or a function "
            "that returns one"
        ) from error
    if not isinstance(made, Agent):
        raise ConfigurationError(f"{where}() returned {made!r}, and no agent")
    return _with_model(made)


async def team_of(agent: AnyAgent, *, connect: bool) -> Planned:
    """Return the agent's team. Without `connect`, the tools of MCP servers are left out.

    Raises:
        AgentkitError: the team does not fit together, or a server cannot be reached.
    """
    plan = plan_team(agent)
    servers = plan.all_servers
    if connect and servers:
        async with open_team(plan) as team:
            return Planned(team=team, missing=())
    names = tuple(dict.fromkeys(server.alias or repr(server) for server in servers))
    return Planned(team=build_team(plan, dict.fromkeys(servers, ())), missing=names)


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name and not name.startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{name} needs the module {error.name!r}, which is not installed here"
            ) from error
        raise ConfigurationError(
            f"there is no module {name!r} in {here} or among the installed packages; write the "
            "path with dots, e.g. my_app.agents:MyAgent"
        ) from error


def _no_such_name(module: Any, name: str) -> str:
    agents = sorted(
        key
        for key, value in vars(module).items()
        if isinstance(value, Agent)
        or (isinstance(value, type) and issubclass(value, Agent) and value is not Agent)
    )
    known = f"its agents are: {', '.join(agents)}" if agents else "it has no agents"
    return f"the module {module.__name__!r} has no {name!r}; {known}"


def _with_model(agent: AnyAgent) -> AnyAgent:
    """A plan needs no model; an agent without one gets a stand-in."""
    if agent.model is None:
        agent.model = ScriptedModel([])
    return agent
