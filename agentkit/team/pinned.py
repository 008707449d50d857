"""A conversation keeps the front that it was begun with, though tools or documents have changed."""

from __future__ import annotations

import json
from dataclasses import replace

from agentkit.context import Context, Segment, Tier, ToolList
from agentkit.context.segment import tool_names
from agentkit.errors import ContextMismatch
from agentkit.finding import finding_tool
from agentkit.shown_tools import own_names
from agentkit.team.members import Member
from agentkit.toolset import McpTool, Tool, Toolset, ToolSpec, canonical_json
from agentkit.toolset.gone import GoneTool
from agentkit.toolset.later import later_specs
from agentkit.toolset.mcp.lists.names import alias_of
from agentkit.warn import PinnedToolsWarning, warn_user


def pinned(member: Member, context: Context) -> Member | None:
    """Return the member as it must be to go on with `context`; None where it cannot.

    It can if nothing differs but

    - the toolset, and the agent still has each tool that the context shows, with the same bytes.
      Its newer tools stay out of this conversation: showing them would rewrite the whole prompt.
      A warning says so.
    - the tools of its MCP servers. They stay as the conversation was shown them, whatever the
      servers offer now; the run tells what differs. Those of a server that the agent has no more
      stay too, and their calls are answered with an error. A warning says so. (A tool that is gone
      and whose name begins like `alias__` was a server's.)
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
    newer = {each.spec.name: each for each in member.toolset if each.spec.name not in toolset}
    found = {spec.name for spec in later_specs(context.later_tools)} & newer.keys()
    later = sorted(
        name for name, each in newer.items() if not isinstance(each, McpTool) and name not in found
    )
    if later:
        warn_user(
            f"agent {member.name!r} goes on with the tools that its conversation was begun with, "
            f"without {later!r}; to have them, begin a new epoch: agentkit.team.begin_epoch",
            PinnedToolsWarning,
        )
    sources = member.sources if member.builder is None else member.builder.sources(old)
    if gone := sorted({alias_of(each.spec.name) for each in toolset if isinstance(each, GoneTool)}):
        warn_user(
            f"agent {member.name!r} goes on with a conversation that was shown tools of the MCP "
            f"servers {gone!r}, which it has no more: their calls are answered with an error; "
            "to be rid of them, begin a new epoch: agentkit.team.begin_epoch",
            PinnedToolsWarning,
        )
    # What it has found stays its own, also where new conversations have that in front.
    deferred = {name: newer[name] for name in sorted(found & member.own_tools)}
    return replace(
        member,
        toolset=toolset,
        own_tools=own_names(member, toolset),
        deferred={**member.deferred, **deferred},
        front=old,
        sources=sources,
    )


def as_begun(member: Member, given: Context) -> Member:
    """Return an agent as it goes on with a conversation.

    Raises:
        ContextMismatch: it was begun differently.
    """
    if (found := pinned(member, given)) is None:
        raise mismatch(member, given)
    return found


def _shown(member: Member, front: Context) -> Toolset | None:
    """Return the tools that a front shows, if the member has them all."""
    lists = [segment.content for segment in front if isinstance(segment.content, ToolList)]
    if not lists:
        # It may have had fixed documents before, and nothing to search; or servers without tools.
        kept = (tool for tool in member.toolset if not isinstance(tool, McpTool))
        may_lack = member.known is not None or not any(True for _ in kept)
        return Toolset() if may_lack else None
    specs = [ToolSpec.pinned(canonical_json(each)) for each in json.loads(lists[0].data)]
    tools = [_answering(member, spec) for spec in specs]
    toolset = Toolset(tool for tool in tools if tool is not None)
    return toolset if toolset.bytes == lists[0].data else None


def _answering(member: Member, spec: ToolSpec) -> Tool | None:
    """Return what answers the calls of a tool that was shown; None where there is no such tool."""
    name = spec.name
    tool = member.toolset.get(name) or member.deferred.get(name) or finding_tool(name)
    if tool is not None and tool.spec.bytes == spec.bytes:
        return tool
    served = None if member.served is None else member.served.tool(spec)
    if served is not None:
        return served
    alias = alias_of(spec.name)
    is_gone = tool is None and alias and alias not in member.aliases
    return GoneTool(spec) if is_gone else None


def _fixed(front: Context, member: Member) -> list[str]:
    """Return what must be the same."""
    free = {Tier.TOOLS} if member.known is None else {Tier.TOOLS, Tier.KNOWLEDGE}
    return [segment.digest for segment in front if segment.tier not in free]


def mismatch(member: Member, given: Context) -> ContextMismatch:
    """Return the error that says how a context's front differs from its agent's."""
    return ContextMismatch(
        f"the context cannot be continued by agent {member.name!r}: "
        f"{difference(given, member)}, so nothing after that could be read from a cache; "
        "continue it with the agent that began it, or say that a new epoch may begin: "
        'on_front_change="epoch", or for one run '
        "context=await agentkit.team.begin_epoch(agent, context). A run that waits is ended with "
        "await agent.abandon(run_id)"
    )


def difference(given: Context, member: Member) -> str:
    """Say how a context's front differs from its agent's."""
    front = member.front
    n_equal = given.front.common_length(front)
    return _difference(given.front.segments[n_equal:], front.segments[n_equal:])


def _difference(old: tuple[Segment, ...], new: tuple[Segment, ...]) -> str:
    """Say how two fronts differ, which are equal up to here."""
    first, second = old[0] if old else None, new[0] if new else None
    if first and first.tier is Tier.TOOLS:
        before, after = tool_names(first), tool_names(second) if second else ()
        changes = [f"-{name}" for name in before if name not in after]
        changes += [f"+{name}" for name in after if name not in before]
        what = ", ".join(changes) or "descriptions or schemas"
        return f"its tools have changed ({what})"
    names = dict.fromkeys(str(item.part or item.tier) for item in (first, second) if item)
    what = " and ".join(names)
    verb = "differ" if what.endswith("s") or len(names) > 1 else "differs"
    return f"its {what} {verb} from what it was begun with"
