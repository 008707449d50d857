"""A conversation keeps the front that it was begun with, though tools or documents have changed."""

from __future__ import annotations

from dataclasses import replace

from agentkit.context import Context, Tier, ToolList
from agentkit.context.segment import tool_names
from agentkit.team.members import Member
from agentkit.toolset import Toolset
from agentkit.warn import PinnedToolsWarning, warn_user


def pinned(member: Member, context: Context) -> Member | None:
    """Return the member as it must be to go on with `context`; None where it cannot.

    It can if nothing differs but

    - the toolset, and the agent still has each tool that the context shows, with the same bytes.
      Its newer tools stay out of this conversation: showing them would rewrite the whole prompt.
      A warning says so.
    - the documents, and they come from a `Knowledge`: then the run tells what has changed.
    """
    old = context.front
    if old == member.front:
        return member
    if _fixed(old, member) != _fixed(member.front, member):
        return None
    toolset = _shown(member, old)
    if toolset is None:
        return None
    if later := sorted(set(member.toolset.names) - set(toolset.names)):
        warn_user(
            f"agent {member.name!r} goes on with the tools that its conversation was begun with, "
            f"without {later!r}; to have them, begin a new epoch: agentkit.team.begin_epoch",
            PinnedToolsWarning,
        )
    own = member.own_tools & frozenset(toolset.names)
    sources = member.sources if member.builder is None else member.builder.sources(old)
    return replace(member, toolset=toolset, own_tools=own, front=old, sources=sources)


def _shown(member: Member, front: Context) -> Toolset | None:
    """Return the tools that a front shows, if the member has them all."""
    lists = [segment for segment in front if segment.tier is Tier.TOOLS]
    if not lists:
        # It may have had fixed documents before, and nothing to search.
        may_lack = member.known is not None or not len(member.toolset)
        return Toolset() if may_lack else None
    tools = [member.toolset.get(name) for name in tool_names(lists[0])]
    toolset = Toolset(tool for tool in tools if tool is not None)
    is_same = Context(ToolList(toolset.bytes)).digest == Context(lists[0].content).digest
    return toolset if is_same else None


def _fixed(front: Context, member: Member) -> list[str]:
    """Return what must be the same."""
    free = {Tier.TOOLS} if member.known is None else {Tier.TOOLS, Tier.KNOWLEDGE}
    return [segment.digest for segment in front if segment.tier not in free]
