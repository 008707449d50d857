"""A conversation keeps the toolset that it was begun with, though the agent has got more tools."""

from __future__ import annotations

from dataclasses import replace

from agentkit.context import Context, Tier, ToolList
from agentkit.context.segment import tool_names
from agentkit.team.members import Member
from agentkit.toolset import Toolset
from agentkit.warn import PinnedToolsWarning, warn_user


def pinned(member: Member, context: Context) -> Member | None:
    """Return the member as it must be to go on with `context`; None where it cannot.

    It can if nothing but the toolset differs, and the agent still has each tool that the context
    shows, with the same bytes. Its newer tools stay out of this conversation: showing them would
    rewrite the whole prompt. A warning says so.
    """
    old, new = context.front, member.front
    shown = [segment for segment in old if segment.tier is Tier.TOOLS]
    if not shown or _without_tools(old) != _without_tools(new):
        return None
    tools = [member.toolset.get(name) for name in tool_names(shown[0])]
    toolset = Toolset(tool for tool in tools if tool is not None)
    if Context(ToolList(toolset.bytes)).digest != Context(shown[0].content).digest:
        return None
    if later := sorted(set(member.toolset.names) - set(toolset.names)):
        warn_user(
            f"agent {member.name!r} goes on with the tools that its conversation was begun with, "
            f"without {later!r}; to have them, begin a new epoch: agentkit.team.begin_epoch",
            PinnedToolsWarning,
        )
    own = member.own_tools & frozenset(toolset.names)
    return replace(member, toolset=toolset, own_tools=own, front=old)


def _without_tools(front: Context) -> list[str]:
    return [segment.digest for segment in front if segment.tier is not Tier.TOOLS]
