"""Fills models' caches with what a team's runs begin with, before anybody asks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentkit.errors import ConfigurationError
from agentkit.models import Reuse
from agentkit.models.base import ModelRequest, Warms
from agentkit.models.routes import preferred
from agentkit.usage import Usage

if TYPE_CHECKING:
    from agentkit.agent import Agent
    from agentkit.team.members import Member


async def warm(agent: Agent[Any, Any], *, keep_s: float | None = None) -> dict[str, Usage]:
    """Let models compute the fronts of an agent and its subagents now, where they can.

    For programs that start before their first question comes. A run needs no such call: agents
    that begin at once share what they begin with, and compute it once, without it. Doing it again
    costs a look-up for each agent.

    Args:
        agent: the team's root. Its servers are connected, if it has any.
        keep_s: keep the fronts in the cache for so long after each use, whatever else needs room.

    Returns:
        What was computed and what was read, by the agents' paths, e.g. `lead/reader`. Agents whose
        model cannot be warmed are left out: hosted models would want to be paid for it.

    Raises:
        ConfigurationError: `keep_s` is no time.
        ModelError: a model failed, or keeps as much as it can already.
    """
    if keep_s is not None and not 0 < keep_s < math.inf:
        raise ConfigurationError(f"keep_s must be seconds, or None for no pin, got {keep_s!r}")
    async with agent.opened() as team:
        # One after the other: the fronts of a team begin with the same rules and tools.
        return {
            path: await model.warm(_request(member), keep_s=keep_s)
            for path, member in _members(team.root, team.root.name)
            if isinstance(model := preferred(member.model), Warms)
        }


def _members(member: Member, path: str) -> Iterator[tuple[str, Member]]:
    yield path, member.begun().member
    # Of those whom it may be handed to only the subagents: a handoff brings no front of its own.
    for each in (member, *member.others):
        for child in each.children.values():
            yield from _members(child, f"{path}/{child.name}")


def _request(member: Member) -> ModelRequest:
    return ModelRequest(
        context=member.front,
        toolset=member.toolset,
        tools_may_come=member.tools_may_come,
        agent=member.name,
        run_id="warm",
        request_id=f"warm-{member.name}",
        tenant=member.tenant,
        reuse=Reuse(again=False),
        sources=member.sources,
    )
