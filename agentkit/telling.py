"""Between two turns: a conversation is told what has changed of its documents.

By a message at its end, or by a new epoch with the newest documents in front: by price, see
`agentkit.knowledge.catch_up`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.context import Context
from agentkit.context.turns import turn_starts
from agentkit.context.version import EpochRule
from agentkit.events import ContextCompacted
from agentkit.knowledge.catch_up import Telling, superseded, tell, unsaid
from agentkit.knowledge.changes import is_told_of_more
from agentkit.knowledge.shown import told_uris
from agentkit.models.prices import prices_of
from agentkit.state import RunState

if TYPE_CHECKING:
    from agentkit.team.known import KnownDocuments


def tell_changes(run: RunState, turn: int) -> ContextCompacted | None:
    """Tell what has changed, once. Returns the event if the context was begun anew for that.

    Before a user's new message or behind the results of a turn. Without a new epoch, what was sent
    stays as it is.
    """
    known = run.member.known
    if known is None or run.told_version == (now := known.knowledge.version):
        return None
    told = _telling(run, known, now)
    run.version = run.told_version = now
    if told is None:
        return None
    if told.anew is None:
        run.say(told.change)
        return None
    run.begin_epoch(told.anew, otherwise=told.change)
    run.member = run.member.behind(told.anew.front)
    run.context = run.context.append(told.message)
    return ContextCompacted(
        turn=turn,
        tokens_before=told.sizes.before,
        tokens_after=told.sizes.rebased,
        cause="documents",
        reason=told.decision.reason,
    )


def newer_front(run: RunState) -> Context | None:
    """Return what the conversation could begin with in place of what it was told of changes."""
    known = run.member.known
    if known is None or run.version is None or not run.may_begin_epochs:
        return None
    if not superseded(run.context.messages):
        return None
    front = known.newest_front(run.context, run.version)
    return None if front == run.context.front else front


def renewed(run: RunState, before: Context) -> None:
    """Say what a new epoch with a newer front does not: what was withdrawn, above all.

    Args:
        run: its context is the new epoch, without the messages about changes.
        before: the epoch before.
    """
    known, version = run.member.known, run.version
    assert known is not None, "only documents make a newer front"
    assert version is not None, "a conversation is told before it is summarised"
    run.member = run.member.behind(run.context.front)
    run.context = run.context.append(
        unsaid(
            run.context,
            known.knowledge,
            version,
            told_uris(before.messages),
            has_more=is_told_of_more(before),
        )
    )


def _telling(run: RunState, known: KnownDocuments, now: int) -> Telling | None:
    """Return how the conversation is told; None if there is nothing to say."""
    context, member = run.context, run.member
    can_search = known.tool.spec.name in member.own_tools
    news = known.news(context, run.version, now, run.seen, can_search=can_search)
    if not news.changes and not (news.has_more and not is_told_of_more(context)):
        return None
    # A conversation that has not begun has nothing to rewrite: its front is that of other runs.
    may_begin = bool(context.messages) and run.may_begin_epochs
    front = known.newest_front(context, now) if may_begin else None
    compaction = member.agent.compaction
    return tell(
        context,
        news,
        known.knowledge,
        prices_of(member.model),
        front=front,
        turns_left=_turns_left(run),
        reads_parts=False,
        keeps_thinking=compaction is not None and compaction.keeps_thinking,
    )


def _turns_left(run: RunState) -> int:
    """Requests expected from now on. A user may go on with the root's conversation.

    What has lasted long is expected to last as long again: that is never wrong by more than half,
    and else a long conversation would carry what is dead for ever.
    """
    expected = max(EpochRule().turns_left, len(turn_starts(run.context.messages)))
    return min(expected, run.member.agent.max_turns - run.own_turn) if run.is_below else expected
