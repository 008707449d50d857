"""Brings a conversation to the latest version: by a message, or by a new epoch, as is cheaper."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from agentkit.blocks import AssistantMessage, Message, UserMessage
from agentkit.caching.tokens import data_tokens
from agentkit.context import Context, Segment
from agentkit.context.prices import Prices
from agentkit.context.turns import is_delta
from agentkit.context.version import EpochDecision, EpochRule, FrontChange, choose, rebase
from agentkit.knowledge.changes import (
    Added,
    Change,
    Withdrawn,
    as_message,
    is_told_of_more,
    uris_in,
)
from agentkit.knowledge.knowledge import Knowledge
from agentkit.knowledge.shown import outdated, shown_uris, told_uris, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A conversation that knows the latest version."""

    context: Context
    version: int
    """To ask with the next time."""
    decision: EpochDecision | None
    """What was done, and what it costs; None: nothing that it has seen has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a conversation has to be told."""

    changes: tuple[Change, ...]
    version: int
    """What is true now."""
    has_more: bool = False
    """Whether there are documents that it can only search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Both ways to tell it, and which one is cheaper."""

    appended: Context
    """The conversation, with `change` at its end."""
    change: UserMessage
    """What has changed."""
    anew: Context | None
    """Its history behind the newest front, where that is cheaper."""
    message: UserMessage
    """What is to be appended to `anew`: what the new front does not say."""
    sizes: FrontChange
    decision: EpochDecision


def catch_up(
    context: Context,
    knowledge: Knowledge,
    since_version: int,
    prices: Prices,
    *,
    front: Context | None = None,
    turns_left: int | None = None,
    is_cached: bool = True,
    rule: EpochRule | None = None,
    keeps_thinking: bool = False,
) -> CaughtUp:
    """Tell a conversation what has changed of the documents that it has seen. Between two turns.

    Args:
        context: the conversation. It stays valid.
        knowledge: where its documents come from.
        since_version: the version that it knows.
        prices: of its model.
        front: what a new conversation would begin with now. None: there is no new epoch.
        turns_left: requests expected after it; None: not known.
        is_cached: whether the provider still has the old context in its cache.
        rule: see `agentkit.context.version.choose`.
        keeps_thinking: see `agentkit.context.version.rebase`.

    Raises:
        KnowledgeError: there is no such version.
        ContextError: a call waits for its result.
    """
    version = knowledge.version
    changes = knowledge.changes(since_version, uris=uris_in(context), until_version=version)
    if not changes:
        return CaughtUp(context=context, version=version, decision=None)
    told = tell(
        context,
        News(changes=changes, version=version),
        knowledge,
        prices,
        front=front,
        turns_left=turns_left,
        is_cached=is_cached,
        rule=rule,
        keeps_thinking=keeps_thinking,
    )
    after = told.appended if told.anew is None else told.anew.append(told.message)
    return CaughtUp(context=after, version=version, decision=told.decision)


def tell(
    context: Context,
    news: News,
    knowledge: Knowledge,
    prices: Prices,
    *,
    front: Context | None,
    turns_left: int | None = None,
    is_cached: bool = True,
    reads_parts: bool = True,
    rule: EpochRule | None = None,
    keeps_thinking: bool = False,
) -> Telling:
    """Return how a conversation is told, see `catch_up`. Between two turns.

    In a new epoch all earlier messages about documents are left out. What they said of documents
    that are not in the new front is said once more.

    Args:
        context: the conversation. It stays valid.
        news: what it has to be told.
        knowledge: where its documents come from.
        prices: of its model.
        front: what it could begin anew with, of the version of `news`; None: there is no new epoch.
        turns_left: requests expected after it; None: not known.
        is_cached: whether the provider still has the old context in its cache.
        reads_parts: whether a part of the front can be read from the cache without the rest.
        rule: see `agentkit.context.version.choose`.
        keeps_thinking: see `agentkit.context.version.rebase`.

    Raises:
        ContextError: a call waits for its result.
    """
    says_more = news.has_more and not is_told_of_more(context)
    change = as_message(news.changes, has_more=says_more)
    appended = context.append(change)
    has_newer = front is not None and front != context.front
    target = front if front is not None and has_newer else context.front
    dead = superseded(context.messages) if has_newer else ()
    message, anew = change, None
    sizes = FrontChange.of(context, target, change, without=dead)
    if has_newer:
        anew = rebase(context, target, without=dead, keeps_thinking=keeps_thinking)
        named = told_uris(dead) | {each.uri for each in news.changes}
        message = unsaid(anew, knowledge, news.version, named, has_more=news.has_more)
        n_message = data_tokens(Segment(message).data)
        sizes = replace(sizes, new_tokens=sizes.new_tokens + n_message)
    sizes = sizes if reads_parts else sizes.whole()
    decision = choose(
        sizes,
        prices,
        turns_left=turns_left,
        is_cached=is_cached,
        may_rebase=has_newer,
        rule=rule,
    )
    return Telling(
        appended=appended,
        change=change,
        anew=anew if decision.action == "rebase" else None,
        message=message,
        sizes=sizes,
        decision=decision,
    )


def superseded(messages: Sequence[Message]) -> tuple[UserMessage, ...]:
    """Return the messages about changes that a newer front makes superfluous.

    All, but for one that stands alone between two turns of the model: those may not follow upon
    each other.
    """
    found: list[UserMessage] = []
    last: Message | None = None
    for message, following in zip(messages, (*messages[1:], None), strict=True):
        # By its neighbours that stay.
        joins = isinstance(last, AssistantMessage) and isinstance(following, AssistantMessage)
        if isinstance(message, UserMessage) and is_delta(message) and not joins:
            found.append(message)
        else:
            last = message
    return tuple(found)


def unsaid(
    anew: Context, knowledge: Knowledge, version: int, named: Collection[str], *, has_more: bool
) -> UserMessage:
    """Return the message for the end of a new epoch with a newer front: what that does not say.

    Args:
        anew: the new epoch.
        knowledge: where its documents come from.
        version: the version of its front.
        named: URIs of the documents that it was told of before.
        has_more: whether there are documents that it can only search.
    """
    still: dict[str, Change] = {
        each.uri: each for each in outdated(anew, knowledge, version, everything=False)
    }
    lost = frozenset(named) - shown_uris(anew) - still.keys()
    there: dict[str, Added] = {each.uri: each for each in unknown(knowledge, version, ())}
    for uri in lost:
        still[uri] = there.get(uri) or Withdrawn(uri=uri)
    return as_message(still.values(), has_more=has_more, is_renewed=True)
