"""The money of one request: paid, uncached, planned, and lost. Exact, or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from agentkit.caching.iterations import ModelUsage
from agentkit.caching.judge.split import NoSplit, scaled, split_of
from agentkit.caching.plan.plan import CachePlan, Prediction
from agentkit.caching.policy import (
    Cost,
    InputSplit,
    Policy,
    Rates,
    Terms,
    cost_of,
    policy_for,
)
from agentkit.caching.policy.money import MILLION
from agentkit.caching.prices import Price, PriceBook
from agentkit.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Amounts in USD, with output. None: unknown."""

    price: Price | None
    paid: Cost | None
    uncached: Decimal | None
    planned: Decimal | None

    @staticmethod
    def of(price: Price | None, actual: InputSplit | None, plan: CachePlan, usage: Usage) -> Bill:
        """Reckon a request whose input may be unknown, at a price that may be unknown."""
        total, output = usage.input_tokens, usage.output_tokens
        if price is None or total is None or output is None:
            return Bill(price=price, paid=None, uncached=None, planned=None)
        planned = _cost(scaled(plan.predicted.split, total), price.rates, output)
        uncached = _cost(InputSplit(read=0, uncached=total), price.rates, output)
        return Bill(
            price=price,
            paid=None if actual is None else _cost(actual, price.rates, output),
            uncached=None if uncached is None else uncached.total,
            planned=None if planned is None else planned.total,
        )

    def plus(self, other: Bill) -> Bill:
        """Return both together; what one of them does not know is unknown."""
        return Bill(
            price=self.price,
            paid=None if self.paid is None or other.paid is None else add(self.paid, other.paid),
            uncached=_sum(self.uncached, other.uncached),
            planned=_sum(self.planned, other.planned),
        )

    def of_a_ping(self) -> Bill:
        """Return the bill of a request that only keeps entries alive."""
        planned = None if self.paid is None else self.paid.total
        return replace(self, uncached=Decimal(0), planned=planned)


def parts_bill(
    parts: Sequence[ModelUsage], policy: Policy, book: PriceBook, at: datetime, terms: Terms
) -> Bill | None:
    """Return the bill of what else was done within the request, each part at its own price.

    Nothing is planned for these: what was paid is what was planned.
    """
    bill: Bill | None = None
    for part in parts:
        own = policy_for(policy.provider, part.model, at.date(), platform=policy.platform)
        price = book.price(own, part.usage.input_tokens or 0, at, terms, model=part.model)
        plan = _unplanned(part.usage)
        split = split_of(part.usage, own, plan)
        actual = None if isinstance(split, NoSplit) else split
        one = Bill.of(price, actual, plan, part.usage)
        one = replace(one, planned=None if one.paid is None else one.paid.total)
        bill = one if bill is None else bill.plus(one)
    return bill


def lost_usd(actual: InputSplit, lost_tokens: int, rates: Rates | None) -> Decimal | None:
    """Return what lost tokens cost more than reads. They are the first ones behind those read."""
    if rates is None:
        return None
    left, extra = lost_tokens, Decimal(0)
    longest_first = sorted(actual.writes, key=lambda write: write[0].seconds, reverse=True)
    paid = [(rates.write(ttl) if rates.writes else rates.input, n) for ttl, n in longest_first]
    for price, n_tokens in (*paid, (rates.input, actual.uncached)):
        if price is None:
            return None
        taken = min(left, n_tokens)
        extra += taken * (price - rates.read) / MILLION
        left -= taken
    return extra


def add(first: Cost, second: Cost) -> Cost:
    """Return two costs together."""
    return Cost(
        read=first.read + second.read,
        write=first.write + second.write,
        uncached=first.uncached + second.uncached,
        output=first.output + second.output,
        write_premium=first.write_premium + second.write_premium,
    )


def _cost(split: InputSplit, rates: Rates, output_tokens: int) -> Cost | None:
    try:
        return cost_of(split, rates, output_tokens=output_tokens)
    except ValueError:  # no price for a lifetime
        return None


def _sum(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    return None if first is None or second is None else first + second


def _unplanned(usage: Usage) -> CachePlan:
    split = InputSplit(read=0, uncached=usage.input_tokens or 0)
    return CachePlan(predicted=Prediction(split=split, hit=0, cost=None, uncached=None))
