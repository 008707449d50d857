"""An agent in a conversation that another has begun: after a handoff, or in a fork.

Nothing that was sent changes: rules, tools and the other's role stay in front, and the agent's own
role is a message at the end. What it may call is a mask over the same tools.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.blocks import UserMessage
from agentkit.context import Context, Document, SystemPart, SystemText, Tier
from agentkit.shown_tools import own_names
from agentkit.team.members import Begun, Member
from agentkit.team.pinned import pinned
from agentkit.toolset import Tool, Toolset

if TYPE_CHECKING:
    from agentkit.saved import SavedRun
    from agentkit.state import RunState

_ONLY = "\n\nOf the tools you may now call these only: "
_NONE = "\n\nCall no tools now."


def joined(host: Member, other: Member) -> Member:
    """Return another agent for conversations with the front of `host`.

    Args:
        host: behind the front of the conversation.
        other: from the same team.
    """
    toolset = other.toolset
    if toolset != host.toolset:  # the conversation was begun with other tools
        toolset = Toolset(_of_both(tool, other.toolset) for tool in host.toolset)
    member = replace(
        other,
        toolset=toolset,
        own_tools=own_names(other, toolset),
        front=host.front,
        sources=host.sources,
        known=host.known,
        builder=host.builder,
    )
    is_its_own = _said_by(host) == _said_by(other)
    return member if is_its_own else replace(member, role_text=_role_text(other))


def _of_both(shown: Tool, others: Toolset) -> Tool:
    """Return what answers a call for the other agent: its own tool, if it is the one shown."""
    own = others.get(shown.spec.name)
    return own if own is not None and own.spec.bytes == shown.spec.bytes else shown


def arrival(run: RunState) -> UserMessage:
    """Return what a conversation is told when an agent has taken it over.

    Its role, if the conversation does not have that yet, and which of the tools it may call that
    are there by now.
    """
    member, tools = run.member, _tools_text(run.own_tools)
    role = member.role_text
    if role is not None and not _is_said(role, run.context):
        return UserMessage.of(role + tools)
    where = "at the beginning" if role is None else "when you were it before"
    return UserMessage.of(
        f"From here on you are the agent {member.name!r} again. What you were told of your role "
        f"{where} holds.{tools}"
    )


def forked(run: RunState, child: Member) -> Begun:
    """Return what a subagent's run begins with that goes on from what a run was told and said."""
    return Begun(member=joined(run.member, child), version=run.version, epoch=run.epoch)


def found_below(parent: Member, saved: SavedRun) -> Member | None:
    """Return the subagent that goes on with a run; None if it is gone or has changed.

    The run may have been begun by whoever was active before, and from the parent's conversation.
    """
    for above in (parent, *parent.others):
        child = above.children.get(saved.agent)
        if child is None:
            continue
        if (member := pinned(child, saved.context)) is not None:
            return member
        if (host := pinned(parent, saved.context)) is not None:
            return joined(host, child)
    return None


def keep_role(run: RunState) -> None:
    """Say the role once more, if it is in no message any more: after a summary."""
    role = run.member.role_text
    if role is not None and not _is_said(role, run.context):
        run.context = run.context.append(UserMessage.of(role + _tools_text(run.own_tools)))


def _is_said(role: str, context: Context) -> bool:
    """Whether a message tells the role, with whatever tools there were then."""
    said = (each.text for each in context.messages if isinstance(each, UserMessage))
    return any(text.startswith(role) and _is_tools_text(text[len(role) :]) for text in said)


def _role_text(other: Member) -> str:
    parts = [
        f"From here on you are the agent {other.name!r}. What you were told of another role before "
        "does not bind you any more.",
        *_texts(other),
    ]
    return "\n\n".join(parts)


def _texts(other: Member) -> Iterator[str]:
    """What only this agent was to know: role, examples and documents.

    Not those of a `Knowledge`: it can be searched, and a copy here would not be kept up to date.
    """
    for segment in other.front:
        match segment.content:
            case SystemText(part=SystemPart.ROLE, text=text):
                yield f"Your role:\n{text}"
            case SystemText(part=SystemPart.EXAMPLES, text=text):
                yield f"Examples:\n{text}"
            case Document(uri=uri, text=text) if other.known is None:
                yield f"Document {uri!r}:\n{text}"


def _tools_text(own: Collection[str]) -> str:
    """Where a provider has no masks, this is how the model knows what it may call."""
    return f"{_ONLY}{', '.join(sorted(own))}." if own else _NONE


def _is_tools_text(text: str) -> bool:
    """Whether this is one, of whichever tools."""
    return text == _NONE or (text.startswith(_ONLY) and "\n" not in text[len(_ONLY) :])


def _said_by(member: Member) -> tuple[object, list[str]]:
    """What a front says of its agent; documents that may change are those of one `Knowledge`."""
    free = {Tier.TOOLS} if member.known is None else {Tier.TOOLS, Tier.KNOWLEDGE}
    said = [segment.digest for segment in member.front if segment.tier not in free]
    return member.known, said
