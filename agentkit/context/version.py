"""Epochs: when rules, tools or knowledge change, append what changed or begin anew, by price.

Appending keeps every cached token, and carries the old text and the new for the rest of the run.
Beginning anew (a rebase) writes everything behind the change once more, and carries nothing dead.
Which is cheaper depends on how many requests will follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from agentkit.blocks import UserMessage
from agentkit.caching.tokens import data_tokens
from agentkit.context.context import Context
from agentkit.context.prices import Prices
from agentkit.context.segment import Segment
from agentkit.context.tier import Tier
from agentkit.context.turns import behind, without_thinking
from agentkit.errors import ContextError


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontChange:
    """How many tokens each way would have. See `FrontChange.of`."""

    shared_tokens: int
    """At the beginning of the old front and the new; read from the cache either way."""
    old_tokens: int
    """The old front behind that."""
    new_tokens: int
    """The new front behind that."""
    history_tokens: int
    """The history that both ways carry on."""
    superseded_tokens: int = 0
    """Earlier deltas in the history, which a new front makes superfluous."""
    delta_tokens: int
    """The message that would be appended instead."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)!r}")

    @classmethod
    def of(
        cls,
        context: Context,
        front: Context,
        delta: UserMessage,
        *,
        without: Collection[UserMessage] = (),
    ) -> FrontChange:
        """Estimate it from the texts; see `rebase` for `without`."""
        n_shared = context.front.common_length(front)
        history = [each for each in context.segments if each.tier is Tier.HISTORY]
        dead = [each for each in history if each.content in without]
        return cls(
            shared_tokens=_tokens(front.segments[:n_shared]),
            old_tokens=_tokens(context.front.segments[n_shared:]),
            new_tokens=_tokens(front.segments[n_shared:]),
            history_tokens=_tokens(history) - _tokens(dead),
            superseded_tokens=_tokens(dead),
            delta_tokens=_tokens([Segment(delta)]),
        )

    def whole(self) -> FrontChange:
        """Return the same, where a front is read whole or not at all, as by caches with marks."""
        return replace(
            self,
            shared_tokens=0,
            old_tokens=self.shared_tokens + self.old_tokens,
            new_tokens=self.shared_tokens + self.new_tokens,
        )

    @property
    def before(self) -> int:
        """Tokens of the context as it is."""
        unchanged = self.shared_tokens + self.history_tokens
        return unchanged + self.old_tokens + self.superseded_tokens

    @property
    def appended(self) -> int:
        """Tokens of the context with the delta at its end."""
        return self.before + self.delta_tokens

    @property
    def rebased(self) -> int:
        """Tokens of the context begun anew."""
        return self.shared_tokens + self.new_tokens + self.history_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRule:
    """How to choose between a delta and a new epoch."""

    turns_left: int = 8
    """Requests expected after the change, where nobody knows better."""
    margin: Decimal = Decimal("0.1")
    """By what share of the cost of appending a new epoch must be cheaper. Estimates err, and only
    appending can be made good later."""

    def __post_init__(self) -> None:
        if self.turns_left < 1:
            raise ValueError(f"turns_left must be at least 1, got {self.turns_left!r}")
        if not 0 <= self.margin < 1:
            raise ValueError(f"margin must be from 0 to below 1, got {self.margin!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDecision:
    """What to do, and what both ways cost over all requests that are expected."""

    action: Literal["append", "rebase"]
    append_cost: Decimal | None
    """USD of input; None: the price is not known."""
    rebase_cost: Decimal | None
    switch_cost: Decimal | None
    """What the next request costs more than it would without any change. For the ledger."""
    reason: str


def choose(
    change: FrontChange,
    prices: Prices,
    *,
    turns_left: int | None = None,
    is_cached: bool = True,
    may_rebase: bool = True,
    rule: EpochRule | None = None,
) -> EpochDecision:
    """Return the cheaper way. Pure.

    Args:
        change: the sizes.
        prices: of the model.
        turns_left: requests expected after the change, the next one included; None: not known.
        is_cached: whether the old context is still in the provider's cache. If not, beginning anew
            rewrites nothing that could have been read.
        may_rebase: False where there is no front to begin anew with; both costs are given still.
        rule: margin and assumptions.
    """
    rule = rule or EpochRule()
    n_requests = max(1, rule.turns_left if turns_left is None else turns_left)
    cost = _Cost(change, prices, is_cached=is_cached)
    append, rebased = cost.append(n_requests), cost.rebase(n_requests)
    action: Literal["append", "rebase"]
    pays = may_rebase and rebased < append * (1 - rule.margin)
    action = "rebase" if pays else "append"
    first = cost.append(1) if action == "append" else cost.rebase(1)
    known = prices.is_known
    return EpochDecision(
        action=action,
        append_cost=append if known else None,
        rebase_cost=rebased if known else None,
        switch_cost=first - cost.unchanged() if known else None,
        reason=(
            _reason(change, action, n_requests, is_cached=is_cached)
            if may_rebase
            else f"append {change.delta_tokens} tokens: there is no newer front"
        ),
    )


def rebase(
    context: Context,
    front: Context,
    *,
    without: Collection[UserMessage] = (),
    keeps_thinking: bool = False,
) -> Context:
    """Return a new epoch: the new front, and the history as it is. Pure.

    Args:
        context: the old epoch. It stays valid.
        front: rules, tools, role and knowledge of the new one.
        without: messages of the history that the new front makes superfluous, such as earlier
            deltas. Only users' messages can be left out, so calls keep their results.
        keeps_thinking: whether thinking is carried over. By default it is not: models refuse it
            behind another prefix than its own.

    Raises:
        ContextError: `front` has a history, a call waits for its result, or a message in `without`
            is not in the history.
    """
    if front.messages:
        raise ContextError(
            f"the front of a new epoch has {len(front.messages)} messages; give it without a "
            "history, e.g. context.front"
        )
    if context.open_calls:
        ids = [call.id for call in context.open_calls]
        raise ContextError(f"calls {ids!r} have no result yet; begin a new epoch after them")
    messages = context.messages
    if unknown := [message for message in without if message not in messages]:
        raise ContextError(f"cannot leave out what is not in the history: {unknown[0]!r}")
    kept = [message for message in messages if message not in without]
    again = kept if keeps_thinking else map(without_thinking, kept)
    return front.append(*behind(front, again))


class _Cost:
    """Input costs over some requests; what both ways have in common later cancels out."""

    def __init__(self, change: FrontChange, prices: Prices, *, is_cached: bool) -> None:
        self._change = change
        self._prices = prices
        self._is_cached = is_cached

    def unchanged(self) -> Decimal:
        """One request without any change."""
        return self._first(self._change.before, self._change.before)

    def append(self, n_requests: int) -> Decimal:
        change = self._change
        first = self._first(change.before, change.appended)
        return first + (n_requests - 1) * self._prices.request(read=change.appended)

    def rebase(self, n_requests: int) -> Decimal:
        change = self._change
        first = self._first(change.shared_tokens, change.rebased)
        return first + (n_requests - 1) * self._prices.request(read=change.rebased)

    def _first(self, known: int, total: int) -> Decimal:
        read = known if self._is_cached else 0
        return self._prices.request(read=read, written=total - read)


def _reason(change: FrontChange, action: str, n_requests: int, *, is_cached: bool) -> str:
    dead = change.appended - change.rebased
    if action == "rebase":
        rewritten = change.rebased - (change.shared_tokens if is_cached else 0)
        why = f"{rewritten} tokens are written once" if is_cached else "nothing is cached any more"
        return f"begin anew: {why}, and {dead} fewer are read by each of {n_requests} requests"
    return (
        f"append {change.delta_tokens} tokens: over {n_requests} requests, leaving out "
        f"{max(0, dead)} superseded tokens would not pay for writing the history again"
    )


def _tokens(segments: Iterable[Segment]) -> int:
    return sum(data_tokens(segment.data) for segment in segments)


_COUNTS = (
    "shared_tokens",
    "old_tokens",
    "new_tokens",
    "history_tokens",
    "superseded_tokens",
    "delta_tokens",
)
