"""From `my_app:MyAgent` to a team whose front can be laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.cli import agents
from agentkit.cli.agents import AnyAgent
from agentkit.team.members import Member, Team
from agentkit.team.opening import build_team, open_team
from agentkit.team.plan import plan_team
from agentkit.testing import ScriptedModel


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
    """Return the agent at `module:name`. A plan needs no model: one without gets a stand-in.

    Raises:
        ConfigurationError: there is none, or it cannot be made without arguments.
    """
    return with_model(agents.load_agent(where))


def with_model(agent: AnyAgent) -> AnyAgent:
    """Give an agent without a model a stand-in, where none will be asked."""
    if agent.model is None:
        agent.model = ScriptedModel([])
    return agent


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
