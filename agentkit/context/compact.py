"""Compaction that keeps the cache: when, with which request, and what the new epoch holds.

    step = next_step(context, usage, rule, prices)
    match step:
        case Keep():       nothing to do
        case Summarise():  ask the same model with `step.request_context`, same tools, same settings
                           context = step.after(answer)     a new epoch, whose front is still cached

The request for the summary is exactly the context that was sent, and one more message: it reads the
whole history from the cache. Everything here is pure; a failed summary leaves the context as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from agentkit.blocks import Message, UserMessage
from agentkit.caching.tokens import data_tokens
from agentkit.context.compaction_rule import SUMMARY_INSTRUCTION, CompactionRule
from agentkit.context.context import Context
from agentkit.context.prices import Prices
from agentkit.context.sizes import Sizes, reported_tokens, uncounted_tokens
from agentkit.context.turns import SUMMARY_HEADER, behind, carried, is_delta, without_thinking
from agentkit.errors import ContextError
from agentkit.usage import Usage

__all__ = [
    "SUMMARY_INSTRUCTION",
    "CompactionRule",
    "Keep",
    "Step",
    "Summarise",
    "compacted",
    "next_step",
    "summary_request_context",
]


@dataclass(frozen=True, slots=True)
class Keep:
    """Go on as it is."""

    reason: str
    is_above_trigger: bool = False
    """Whether it is long enough, and there is a reason against it all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarise:
    """Ask for a summary, and go on from it."""

    context: Context
    """What was sent, and stays as it is."""
    request_context: Context
    """What to ask with, by the same tools, tool choice, settings and output form as before:
    changing any of them would lose cached tokens at some provider."""
    keep_turns: int
    n_before: int
    """Tokens of the context."""
    n_front: int
    """Tokens of its front that the new epoch reads from the cache; 0 with a newer front."""
    summary_tokens: int
    """How long the summary is expected to be."""
    n_after: int
    """Tokens that the new epoch is expected to begin with."""
    saved: Decimal | None
    """What it is expected to save over the requests that follow, in USD; None: unknown price.
    Below 0 where the conversation had come to its limit."""
    switch_cost: Decimal | None
    """What the summary and the first request of the new epoch cost more than going on with one
    request would. For the ledger."""
    reason: str
    keeps_thinking: bool = False
    front: Context | None = None
    """The newer one that the new epoch begins with; None: the same as before."""

    def after(self, summary: str) -> Context:
        """Return the new epoch, see `compacted`."""
        return compacted(
            self.context,
            summary,
            self.keep_turns,
            front=self.front,
            keeps_thinking=self.keeps_thinking,
        )


Step: TypeAlias = Keep | Summarise


def next_step(
    context: Context,
    usage: Usage | None,
    rule: CompactionRule,
    prices: Prices,
    *,
    turns_left: int | None = None,
    front: Context | None = None,
) -> Step:
    """Return whether to go on or to compact, between two turns. Pure.

    Args:
        context: the conversation, with the last turn and its results.
        usage: of the last request, which knows its length; estimated where it does not.
        rule: when and how far.
        prices: of the model.
        turns_left: requests expected to follow, the next one included; None: not known.
        front: a newer one that includes all deltas; taken where those are longer than it.
    """
    if turns_left == 0:
        return Keep("no request follows")
    reported = reported_tokens(usage)
    if reported is not None and reported + uncounted_tokens(context) < rule.trigger_tokens:
        return Keep(f"{reported} tokens are below the trigger of {rule.trigger_tokens}")
    if context.open_calls:
        return Keep("calls wait for their results", is_above_trigger=True)
    sizes = Sizes(context, usage)
    if sizes.total < rule.trigger_tokens:
        return Keep(f"{sizes.total} tokens are below the trigger of {rule.trigger_tokens}")
    if sizes.grown < rule.gap_tokens:
        return Keep(
            f"the epoch grew by {sizes.grown} tokens since its summary, and by less than "
            f"{rule.gap_tokens} a new one would not be worth its cost",
            is_above_trigger=True,
        )
    if front is not None and sizes.deltas < sizes.after(0, 0, front):
        front = None
    keep_turns = _turns_that_fit(sizes, rule, front)
    n_after = sizes.after(keep_turns, rule.summary, front)
    if sizes.total - n_after < rule.gap_tokens and n_after > rule.target_tokens:
        return Keep(
            f"what cannot be summarised (rules, tools, knowledge and what is not answered yet) has "
            f"{n_after - rule.summary} tokens, so a summary would not bring it below "
            f"{rule.target_tokens}; raise trigger_tokens or use less knowledge",
            is_above_trigger=True,
        )
    return _by_price(context, sizes, rule, prices, keep_turns, turns_left, front)


def summary_request_context(context: Context, instruction: str = SUMMARY_INSTRUCTION) -> Context:
    """Return what to ask for a summary with: the context that was sent, and one more message.

    Raises:
        ContextError: a call waits for its result.
    """
    return context.append(UserMessage.of(instruction))


def compacted(
    context: Context,
    summary: str,
    keep_turns: int,
    *,
    front: Context | None = None,
    keeps_thinking: bool = False,
) -> Context:
    """Return a new epoch: the front, the summary, what still holds, and the last turns. Pure.

    The front's bytes are the same, so it is read from the cache. Deltas that supersede a part of
    it, and tools that came behind it, are carried over as they are. Kept turns keep their calls,
    results, images and the user's marks; their thinking only where `keeps_thinking` says so.

    Args:
        context: the old epoch, without the instruction and the answer to it.
        summary: what the model answered.
        keep_turns: model turns, with their results and what users said after them. What users said
            since the last turn is always kept, since nobody has answered it.
        front: a newer one to begin with instead, in which all deltas are included. When the history
            is written anew anyway, only the front itself is paid for.
        keeps_thinking: see `CompactionRule`.

    Raises:
        ContextError: the summary is empty, a call waits for its result, or `front` has a history.
    """
    if not summary.strip():
        raise ContextError("the summary is empty; go on with the context as it is, or ask again")
    if context.open_calls:
        ids = [call.id for call in context.open_calls]
        raise ContextError(f"calls {ids!r} have no result yet; compact after them")
    if front is not None and front.messages:
        raise ContextError(f"the front of a new epoch has {len(front.messages)} messages")
    kept: Iterable[Message] = carried(context.messages, keep_turns)
    if front is not None:
        kept = (message for message in kept if not is_delta(message))
    if not keeps_thinking:
        kept = map(without_thinking, kept)
    begun = context.front if front is None else front
    said = UserMessage.of(f"{SUMMARY_HEADER}\n\n{summary.strip()}")
    return begun.append(said, *behind(begun, kept))


def _by_price(
    context: Context,
    sizes: Sizes,
    rule: CompactionRule,
    prices: Prices,
    keep_turns: int,
    turns_left: int | None,
    front: Context | None,
) -> Step:
    n_requests = rule.turns_left if turns_left is None else turns_left
    n_after = sizes.after(keep_turns, rule.summary, front)
    n_read = sizes.front if front is None else 0
    switch = _switch_cost(sizes, n_read, n_after, rule, prices)
    fewer = prices.request(read=sizes.total) - prices.request(read=n_after)
    saved = (n_requests - 1) * fewer - switch
    at_limit = sizes.total >= rule.limit
    if saved <= 0 and not at_limit:
        return Keep(
            f"{sizes.total} tokens can still be read, and with {n_requests} requests left "
            f"a summary would cost more than it saves; from limit_tokens={rule.limit} on it is "
            "written in any case",
            is_above_trigger=True,
        )
    return Summarise(
        context=context,
        request_context=summary_request_context(context, rule.instruction),
        keep_turns=keep_turns,
        n_before=sizes.total,
        n_front=n_read,
        summary_tokens=rule.summary,
        n_after=n_after,
        saved=saved if prices.is_known else None,
        switch_cost=switch if prices.is_known else None,
        reason=(
            f"{sizes.total} tokens are at the limit of {rule.limit}"
            if at_limit
            else f"{sizes.total - n_after} tokens fewer are read by each of {n_requests} requests"
        ),
        keeps_thinking=rule.keeps_thinking,
        front=front,
    )


def _switch_cost(
    sizes: Sizes, n_read: int, n_after: int, rule: CompactionRule, prices: Prices
) -> Decimal:
    n_instruction = data_tokens(rule.instruction.encode())
    asking = prices.request(read=sizes.total, written=n_instruction, output=rule.summary)
    first = prices.request(read=n_read, written=n_after - n_read)
    return asking + first - prices.request(read=sizes.total)


def _turns_that_fit(sizes: Sizes, rule: CompactionRule, front: Context | None) -> int:
    for keep_turns in range(rule.keep_turns, 0, -1):
        if sizes.after(keep_turns, rule.summary, front) <= rule.target_tokens:
            return keep_turns
    return 0
