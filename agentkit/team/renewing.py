"""A conversation of before goes on with its agent as it is now: a new epoch, declared and told.

Only where the agent says so (`Agent.on_front_change`), and only where it could not go on otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agentkit.caching.tokens import data_tokens
from agentkit.context import Context
from agentkit.context.segment import Segment
from agentkit.events import ContextCompacted
from agentkit.knowledge.shown import shown_uris
from agentkit.saved import SavedRun
from agentkit.team.members import Member
from agentkit.team.pinned import as_begun, difference, pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What a conversation goes on with behind the present front."""

    context: Context
    version: int | None
    """Of the documents in front, if they may change."""
    shown: frozenset[str]
    """URIs of the documents that it was shown before."""
    event: ContextCompacted


def going_on(
    member: Member, given: Context, *, renews: bool, turn: int = 0
) -> tuple[Member, Renewal | None]:
    """Return who goes on with a conversation, and what it begins anew with, if it has to.

    Args:
        member: the agent as it is now.
        given: a conversation that it, or an older form of it, has begun.
        renews: whether it may begin anew.
        turn: that is asked next.

    Raises:
        ContextMismatch: it was begun differently, and may not begin anew.
    """
    if not renews:
        return as_begun(member, given), None
    if (found := pinned(member, given)) is not None:
        return found, None
    # Not at the top: importing agentkit loads no provider's rules.
    from agentkit.context.version import rebase

    begun, rule = member.begun(), member.agent.compaction
    front = begun.member.front
    keeps_thinking = rule is not None and rule.keeps_thinking
    context = rebase(given, front, keeps_thinking=keeps_thinking)
    event = ContextCompacted(
        turn=turn,
        tokens_before=_n_tokens(given),
        tokens_after=_n_tokens(context),
        cause="front",
        reason=f"{difference(given, member)}; what comes behind that is written to the cache anew",
    )
    return begun.member, Renewal(
        context=context, version=begun.version, shown=frozenset(shown_uris(given)), event=event
    )


def run_going_on(
    member: Member, saved: SavedRun, *, renews: bool
) -> tuple[Member, SavedRun, Renewal | None]:
    """Like `going_on`, with a run. Its open turn stays open, with the results that it has.

    Raises:
        ContextMismatch: as `going_on`.
    """
    if renews and saved.status == "done":
        return member.behind(saved.context.front), saved, None
    found, renewal = going_on(member, saved.context, renews=renews, turn=saved.turn)
    if renewal is None:
        return found, saved, None
    said = (*saved.said_before, *saved.context.messages[saved.n_old_messages :])
    anew = replace(
        saved,
        context=renewal.context,
        said_before=said,
        n_old_messages=len(renewal.context.messages),
        way_back=None,
    )
    return found, anew, renewal


def _n_tokens(segments: Iterable[Segment]) -> int:
    return sum(data_tokens(segment.data) for segment in segments)
