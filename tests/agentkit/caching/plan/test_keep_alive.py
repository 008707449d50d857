"""When a ping pays, and when it is sent."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal

import pytest

from agentkit.caching.plan.draft import LiveEntry
from agentkit.caching.plan.keep_alive import NextPing, StopPinging, next_ping
from agentkit.caching.policy import Rates, Ttl, anthropic_policy, keep_alive_pings
from agentkit.caching.simulate import ManualClock, SimulatedAnthropic
from tests.agentkit.caching.plan.planning import (
    CLAUDE,
    DAY,
    block,
    draft_of,
    policy_of,
    request,
    send,
    user,
)

NOW = ManualClock()()
RICH = Decimal(1000)


def rates(model: str = CLAUDE) -> Rates:
    row = anthropic_policy(model, DAY).prices
    assert row is not None
    return row.rates


def entry(seconds_left: float, ttl: Ttl = Ttl.FIVE_MINUTES) -> LiveEntry:
    now_s = NOW.timestamp()
    return LiveEntry(ttl=ttl, expires_s=now_s + seconds_left, readable_s=now_s)


def decide(
    seconds_left: float = 300,
    *,
    spent: Decimal = Decimal(0),
    cap: Decimal = RICH,
    model: str = CLAUDE,
    ttl: Ttl = Ttl.FIVE_MINUTES,
    until_s: float | None = None,
) -> NextPing | StopPinging:
    return next_ping(
        entry(seconds_left, ttl),
        tokens=100_000,
        rates=rates(model),
        now=NOW,
        spent=spent,
        cap=cap,
        until=None if until_s is None else NOW + timedelta(seconds=until_s),
    )


def test_a_ping_comes_before_the_entry_ends_and_costs_a_read() -> None:
    ping = decide(300)
    assert isinstance(ping, NextPing)
    assert timedelta(seconds=240) < ping.at - NOW < timedelta(seconds=300)
    assert ping.cost == Decimal("0.01")  # 100,000 tokens at 0.10 per million


def test_an_answer_that_took_long_has_used_up_a_part_of_the_life() -> None:
    """C44: four minutes of streaming leave one; the ping is due in less than that."""
    ping = decide(60)
    assert isinstance(ping, NextPing)
    assert ping.at - NOW < timedelta(seconds=60)
    late = decide(5)
    assert isinstance(late, NextPing)
    assert late.at == NOW


@pytest.mark.parametrize(
    ("model", "n_pings"),
    [("claude-opus-5", 11), ("claude-sonnet-5-5", 24), ("claude-fable-5-1", 49)],
)
def test_pings_go_on_until_they_cost_what_a_miss_would(model: str, n_pings: int) -> None:
    """11, 24 and 49 pings: about 55 minutes, two and four hours."""
    spent, sent = Decimal(0), 0
    while isinstance(ping := decide(model=model, spent=spent), NextPing):
        spent += ping.cost
        sent += 1
    price = rates(model)
    write = price.write(Ttl.FIVE_MINUTES)
    assert write is not None
    assert sent == n_pings == keep_alive_pings(write / price.input, price.read / price.input)
    assert "of a miss" in ping.reason


def test_the_spending_limit_holds_before_that() -> None:
    assert isinstance(decide(spent=Decimal("0.02"), cap=Decimal("0.03")), NextPing)
    stop = decide(spent=Decimal("0.03"), cap=Decimal("0.03"))
    assert isinstance(stop, StopPinging)
    assert "over 0.03 USD" in stop.reason
    assert isinstance(decide(cap=Decimal(0)), StopPinging)


def test_an_entry_that_is_gone_is_not_written_again_by_a_ping() -> None:
    assert isinstance(decide(0), StopPinging)
    assert isinstance(decide(-10), StopPinging)
    assert isinstance(decide(math.inf), StopPinging)


def test_no_ping_is_sent_for_a_request_that_comes_in_time() -> None:
    assert isinstance(decide(300, until_s=200), StopPinging)
    assert isinstance(decide(300, until_s=400), NextPing)


def test_without_a_price_no_money_is_spent() -> None:
    stop = next_ping(entry(300), tokens=1000, rates=None, now=NOW, spent=Decimal(0), cap=Decimal(1))
    assert isinstance(stop, StopPinging)


def test_a_prefix_that_is_pinged_is_read_after_a_long_tool() -> None:
    """Fifteen minutes on a cache of five, through the simulated cache: read, not written."""
    clock = ManualClock()
    cache = SimulatedAnthropic(clock=clock)
    asked = request([user(block("history", 100_000))])
    draft = draft_of(asked)
    policy = policy_of("anthropic", CLAUDE)
    sent = send(cache, clock, draft, policy)
    end, spent = clock() + timedelta(seconds=900), Decimal(0)
    while clock() < end:
        live = cache.written(asked).at(0)
        assert live is not None
        step = next_ping(
            live, tokens=100_000, rates=rates(), now=clock(), spent=spent, cap=RICH, until=end
        )
        if isinstance(step, StopPinging):
            clock.advance((end - clock()).total_seconds())
            break
        clock.advance((step.at - clock()).total_seconds())
        ping = cache.request(sent.plan.applied(asked))
        assert ping.read == 100_000  # type: ignore[union-attr]
        spent += step.cost
    assert send(cache, clock, draft, policy).served.read == 100_000
    assert spent == Decimal("0.03")
