"""The declared change: a conversation goes on with its agent's present rules, tools and role."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from agentkit.blocks import UserMessage
from agentkit.context import Context

if TYPE_CHECKING:
    from agentkit.agent import Agent


async def begin_epoch(
    agent: Agent[Any, Any],
    context: Context,
    *,
    without: Collection[UserMessage] = (),
    keeps_thinking: bool = False,
) -> Context:
    """Return a conversation with the agent's front as it is now, and the history as it was.

    Everything behind the change is written to the provider's cache once more; what that costs
    beside a message that tells of the change, `agentkit.context.version.choose` says.

    Args:
        agent: who will go on. Its servers are connected, if it has any.
        context: a conversation that it, or an older form of it, has begun. It stays valid.
        without: messages that the new front makes superfluous.
        keeps_thinking: see `agentkit.context.version.rebase`.

    Raises:
        ContextError: a call waits for its result, or a message in `without` is not there.
    """
    # Not at the top: importing agentkit loads no provider's rules.
    from agentkit.context.version import rebase

    async with agent.opened() as team:
        front = team.root.begun().member.front
        return rebase(context, front, without=without, keeps_thinking=keeps_thinking)
