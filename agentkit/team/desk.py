"""A desk: an agent that conversations begin with, and all that they may be handed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit.errors import ConfigurationError

if TYPE_CHECKING:
    from agentkit.agent import Agent

    AnyAgent: TypeAlias = Agent[Any, Any]


@dataclass(frozen=True, slots=True)
class Desk:
    """The agents of a desk; each of them knows whom it may hand over to."""

    agents: tuple[AnyAgent, ...]
    """Who begins, then the others in the order in which handoffs reach them."""
    targets: Mapping[str, tuple[AnyAgent, ...]]
    """By name of who hands over."""

    @property
    def others(self) -> tuple[AnyAgent, ...]:
        """All but who begins."""
        return self.agents[1:]


def desk_of(head: AnyAgent) -> Desk:
    """Return the desk of an agent. Makes those that were given as classes.

    Raises:
        ConfigurationError: two agents of the desk have one name, one would hand over to itself, or
            a name is that of nobody.
    """
    agents, given = [head], {}
    for agent in agents:  # grows while it is walked
        given[agent.name] = [_met(other, agents, head) for other in agent.handoffs]
        _check_unique(agents)
    targets = {
        agent.name: tuple(_named(other, agents, agent) for other in given[agent.name])
        for agent in agents
    }
    return Desk(tuple(agents), targets)


def _met(given: AnyAgent | type[AnyAgent] | str, agents: list[AnyAgent], head: AnyAgent) -> Any:
    """Return the agent that is meant, who may be new to the desk; names are left for later."""
    if isinstance(given, str):
        return given
    for agent in agents:
        if agent is given or type(agent) is given:
            return agent
    agents.append(head.made(given, "handoff") if isinstance(given, type) else given)
    return agents[-1]


def _named(other: AnyAgent | str, agents: list[AnyAgent], who: AnyAgent) -> AnyAgent:
    if isinstance(other, str):
        found = [agent for agent in agents if agent.name == other]
        if not found:
            raise ConfigurationError(
                f"agent {who.name!r} hands over to {other!r}, which is nobody at this desk; there "
                f"are {[agent.name for agent in agents]!r}: give the class or an instance"
            )
        other = found[0]
    if other is who:
        raise ConfigurationError(f"agent {who.name!r} cannot hand over to itself")
    return other


def _check_unique(agents: list[AnyAgent]) -> None:
    names = [agent.name for agent in agents]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"a conversation of agent {names[0]!r} could be handed to two agents named "
                f"{name!r}; give one of them another name"
            )
