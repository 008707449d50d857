"""The tools that a conversation was shown, in front and later, and who answers their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.toolset import McpTool, Toolset, ToolSpec
from agentkit.toolset.gone import GoneTool
from agentkit.toolset.later import later_specs
from agentkit.toolset.pinned_tool import PinnedTool

if TYPE_CHECKING:
    from agentkit.context import Context
    from agentkit.team.members import Member
    from agentkit.toolset import Tool


class ShownTools:
    """Of one run. What was asked for last is kept: it changes seldom and is asked for often."""

    def __init__(self) -> None:
        self._member: Member | None = None
        self._texts: tuple[str, ...] = ()
        self._toolset = Toolset()
        self._own: frozenset[str] = frozenset()

    def toolset(self, member: Member, context: Context) -> Toolset:
        """Return all tools that a context shows: those of the member's front, and later ones."""
        if not (texts := context.later_tools):
            return member.toolset
        self._look(member, texts)
        return self._toolset

    def own(self, member: Member, context: Context) -> frozenset[str]:
        """Return which of them the member may call."""
        if not (texts := context.later_tools):
            return member.own_tools
        self._look(member, texts)
        return self._own

    def _look(self, member: Member, texts: tuple[str, ...]) -> None:
        if member is self._member and texts is self._texts:
            return
        later = (_answering(member, spec) for spec in later_specs(texts))
        self._toolset = Toolset((*member.toolset, *later))
        self._own = own_names(member, self._toolset)
        self._member, self._texts = member, texts


def own_names(member: Member, toolset: Toolset) -> frozenset[str]:
    """Return which tools of a conversation an agent may call: its own, and those of its servers,
    also such as it has found.

    A server's tool may be one that it does not offer now, and so none of the agent's. One whose
    server is gone does nothing, and everybody may be told so.
    """
    later = (
        tool.spec.name
        for tool in toolset
        if isinstance(tool, GoneTool)
        or (isinstance(tool, McpTool) and tool.alias in member.aliases)
        or tool.spec.name in member.deferred
    )
    return (member.own_tools & frozenset(toolset.names)).union(later)


def _answering(member: Member, spec: ToolSpec) -> Tool:
    # What another has found before a handoff is still there, and not this agent's.
    for each in (member, *member.others):
        if (deferred := each.deferred.get(spec.name)) is not None:
            return PinnedTool(spec, deferred)
    tool = None if member.served is None else member.served.tool(spec)
    return GoneTool(spec) if tool is None else tool
