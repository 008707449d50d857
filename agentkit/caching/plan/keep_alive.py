"""When to read an entry only to keep it alive, and when that is no longer worth it.

A read renews an entry's life. Life counts from the start of the request that wrote or read it, so
a long answer has used up a part of it. A ping every few minutes costs a read of the whole prefix;
it pays as long as all pings of one gap together cost less than what a miss would: writing the
prefix where it could have been read. With 1.25 and 0.1 that is for 11 pings, with 0.05 for 24.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

from agentkit.caching.plan.draft import LiveEntry
from agentkit.caching.plan.needs import PING_MARGIN_S
from agentkit.caching.policy import Rates
from agentkit.caching.policy.money import MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPing:
    """Read the entry again at this time."""

    at: datetime
    cost: Decimal
    """What the read will cost, in USD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPinging:
    """Let the entry lapse, or leave it: no more reads are worth it."""

    reason: str
    """One sentence."""


PingDecision: TypeAlias = NextPing | StopPinging


def next_ping(
    entry: LiveEntry,
    *,
    tokens: int,
    rates: Rates | None,
    now: datetime,
    spent: Decimal,
    cap: Decimal,
    until: datetime | None = None,
) -> PingDecision:
    """Return when to ping next, or why not.

    `tokens`: length of the entry. `spent`: USD that this gap's pings have cost so far; `cap`: most
    that they may. `until`: when the next real request comes, if that is known.

    Whether pings are the cheapest way over a slow gap at all is `CachePlan.keep_alive`.
    """
    now_s = now.timestamp()
    if math.isinf(entry.expires_s):
        return StopPinging(reason="the entry is still being written")
    if entry.expires_s <= now_s:
        return StopPinging(reason="the entry has expired; a ping would write it again")
    if until is not None and entry.expires_s > until.timestamp():
        return StopPinging(reason="the entry lives until the next request")
    if rates is None:
        return StopPinging(reason="no price is known, so no spending limit could be kept")
    cost = tokens * rates.read / MILLION
    if spent + cost > cap:
        return StopPinging(reason=f"the next ping would take the spending over {cap} USD")
    saved = tokens * (_write_price(entry, rates) - rates.read) / MILLION
    if spent + cost > saved:
        return StopPinging(reason=f"all pings would cost more than the {saved} USD of a miss")
    at_s = max(now_s, entry.expires_s - PING_MARGIN_S)
    return NextPing(at=datetime.fromtimestamp(at_s, UTC), cost=cost)


def _write_price(entry: LiveEntry, rates: Rates) -> Decimal:
    price = None if entry.ttl is None else rates.write(entry.ttl)
    return rates.input if price is None else price
