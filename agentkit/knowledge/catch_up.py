"""Brings a conversation to the latest version: by a message, or by a new epoch, as is cheaper."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.blocks import UserMessage
from agentkit.context import Context
from agentkit.context.prices import Prices
from agentkit.context.turns import is_delta
from agentkit.context.version import EpochDecision, EpochRule, FrontChange, choose, rebase
from agentkit.knowledge.changes import as_message, uris_found, uris_in
from agentkit.knowledge.knowledge import Knowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A conversation that knows the latest version."""

    context: Context
    version: int
    """To ask with the next time."""
    decision: EpochDecision | None
    """What was done, and what it costs; None: nothing that it has seen has changed."""


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
    changes = knowledge.changes(since_version, uris=uris_in(context))
    if not changes:
        return CaughtUp(context=context, version=version, decision=None)
    told = as_message(changes)
    found = uris_found(context)
    has_newer = front is not None and front != context.front
    target = front if front is not None and has_newer else context.front
    # Earlier messages may speak of passages that searches found: those stay in the history.
    dead = _deltas(context) if has_newer and not found else ()
    decision = choose(
        FrontChange.of(context, target, told, without=dead),
        prices,
        turns_left=turns_left,
        is_cached=is_cached,
        may_rebase=has_newer,
        rule=rule,
    )
    if decision.action == "append":
        return CaughtUp(context=context.append(told), version=version, decision=decision)
    anew = rebase(context, target, without=dead, keeps_thinking=keeps_thinking)
    still = [change for change in changes if change.uri in found]
    if still:
        anew = anew.append(as_message(still))
    return CaughtUp(context=anew, version=version, decision=decision)


def _deltas(context: Context) -> tuple[UserMessage, ...]:
    messages = (each for each in context.messages if isinstance(each, UserMessage))
    return tuple(filter(is_delta, messages))
