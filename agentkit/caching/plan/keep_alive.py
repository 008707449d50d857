"""When to read an entry only to keep it alive, and when that is no longer worth it.

A read renews an entry's life. Life counts from the start of the request that wrote or read it, so
a long answer has used up a part of it. A ping costs a read of the whole prefix; it pays as long as
all pings of one gap together cost less than a miss: writing the prefix where it could have been
read. With multipliers 1.25 and 0.1 that is for 11 pings, with 0.05 for 24.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeAlias, assert_never

from agentkit.caching.plan.needs import PING_MARGIN_S
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    InputSplit,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
    Rates,
    Terms,
    Ttl,
    cost_of,
)
from agentkit.caching.policy.money import MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """A request whose entries may be kept alive, and what that has cost so far."""

    plan: CachePlan
    policy: Policy
    used_at: datetime
    """When the last request or ping that used the entries was begun."""
    n_pings: int
    """Pings of this gap so far."""
    spent_usd: Decimal
    """What they have cost, as far as it is known."""
    cap_usd: Decimal
    """Most that the pings of this gap may cost."""
    now: datetime | None = None
    """None: still within the entries' life."""
    until: datetime | None = None
    """When the next request comes, if that is known."""
    terms: Terms | None = None
    """Under which the request was sent; None is the standard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPing:
    """Read the entries again at this time."""

    at: datetime
    cost: Decimal
    """What that will cost, in USD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPinging:
    """Send no more: the entries lapse, or live long enough by themselves."""

    reason: str
    """One sentence."""


PingDecision: TypeAlias = NextPing | StopPinging


def next_ping(state: KeepAlive) -> PingDecision:
    """Return when to ping next, or why not at all. Pure."""
    if not state.plan.keep_alive:
        return StopPinging(reason="a slow gap is bridged more cheaply without pings")
    ttl = _lifetime(state.plan, state.policy)
    if ttl is None:
        return StopPinging(reason=f"{state.policy.provider.value} renews no entry by a mark")
    expires = state.used_at + timedelta(seconds=ttl.seconds)
    if state.now is not None and expires <= state.now:
        return StopPinging(reason="the entries have expired; a ping would write them again")
    if state.until is not None and state.until < expires:
        return StopPinging(reason="the entries live until the next request")
    prices, split = state.policy.prices, state.plan.predicted.split
    rates = prices and prices.rates_for(split.total, state.used_at, state.terms)
    if rates is None:
        return StopPinging(reason="no price is known, so no spending limit could be kept")
    return _priced(state, rates, ttl, expires)


def _priced(state: KeepAlive, rates: Rates, ttl: Ttl, expires: datetime) -> PingDecision:
    split = state.plan.predicted.split
    held = split.read + split.written
    cost = cost_of(InputSplit(read=held, uncached=split.total - held), rates).total
    # What a provider did not report is reckoned as planned, or the limit would never be reached.
    spent = max(state.spent_usd, state.n_pings * cost)
    if spent + cost > state.cap_usd:
        return StopPinging(reason=f"the next ping would take the spending over {state.cap_usd} USD")
    saved = held * ((rates.write(ttl) or rates.input) - rates.read) / MILLION
    if spent + cost > saved:
        return StopPinging(reason=f"all pings would cost more than the {saved} USD of a miss")
    return NextPing(at=expires - timedelta(seconds=PING_MARGIN_S), cost=cost)


def _lifetime(plan: CachePlan, policy: Policy) -> Ttl | None:
    """Return the lifetime of the longest entry that the request's marks name."""
    match policy:
        case AnthropicPolicy() | OpenAiMarkPolicy():
            return (plan.marks[-1].ttl or policy.default_ttl) if plan.marks else None
        case CompatiblePolicy():
            named = plan.marks[-1].ttl if plan.marks else None
            return named or (min((each.ttl for each in policy.ttls), default=None, key=_seconds))
        case OpenAiIntervalPolicy() | DeepSeekPolicy() | GeminiPolicy():
            return None
        case _:
            assert_never(policy)


def _seconds(ttl: Ttl) -> int:
    return ttl.seconds
