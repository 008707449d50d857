"""How long entries are to live: by price, from what is known of the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

import pytest

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix, Written
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import Policy, Ttl
from agentkit.caching.request import CacheRequest, OpenAiOptions
from agentkit.caching.simulate import ManualClock, SimulatedAnthropic
from tests.agentkit.caching.plan.planning import (
    assistant,
    block,
    draft_of,
    policy_of,
    request,
    send,
    user,
)

NOW = ManualClock()()


def turn(n_turns: int) -> CacheRequest:
    """A long front, and turns of a short call and a long result."""
    messages = [user(block("question", 600))]
    for number in range(n_turns):
        messages += [assistant(block(f"call{number}", 50)), user(block(f"result{number}", 4000))]
    return request(messages, system=[block("front", 50_000)])


def slow(asked: CacheRequest, chance: str, gap_s: int = 900, **more: Any) -> Draft:
    return draft_of(asked, slow_chance=Decimal(chance), slow_gap_s=Decimal(gap_s), **more)


def lifetimes(draft: Draft, policy: Policy, written: Written) -> list[tuple[int, Ttl | None]]:
    return [(m.index, m.ttl) for m in plan(draft, policy, written, NOW).marks]


def test_a_possible_long_gap_is_bridged_by_an_hour_on_the_first_small_block(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """A long-lived entry holds the whole prefix before it; only its own block is paid for."""
    send(cache, clock, draft_of(turn(0)), policy)
    sent = send(cache, clock, slow(turn(1), "0.1"), policy)
    assert (2, Ttl.ONE_HOUR) in [(m.index, m.ttl) for m in sent.plan.marks]
    assert sent.served.split.wrote(Ttl.ONE_HOUR) == 50
    clock.advance(900)
    assert send(cache, clock, draft_of(turn(2)), policy).served.read >= 50_650


def test_a_long_tool_costs_much_less_than_a_new_write(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """Thirty turns, each fifth tool takes 15 minutes: with the gap foreseen and unforeseen."""

    def cost(chances: Sequence[str]) -> Decimal:
        cache, clock, total = SimulatedAnthropic(clock=(ticks := ManualClock())), ticks, Decimal(0)
        for number in range(30):
            served = send(cache, clock, slow(turn(number), chances[number]), policy).served
            assert served.cost is not None
            total += served.cost.total
            clock.advance(900 if number % 5 == 4 else 20)
        return total

    known = cost(["1" if number % 5 == 4 else "0" for number in range(30)])
    vaguely = cost(["0.2"] * 30)
    never = cost(["0"] * 30)
    assert known <= vaguely < never / 2


def test_a_gap_beyond_an_hour_is_not_paid_for(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    send(cache, clock, draft_of(turn(0)), policy)
    draft = slow(turn(1), "1", gap_s=7200)
    planned = plan(draft, policy, cache.written(draft.request), clock())
    assert all(m.ttl is None for m in planned.marks)
    assert planned.predicted.split.written == 0


def test_an_improbable_long_gap_is_not_worth_a_dear_write(policy: Policy) -> None:
    """Cold, there is no small block: an hour for 50,000 tokens is not paid on a chance of 2 %."""
    assert all(ttl is None for _, ttl in lifetimes(slow(turn(0), "0.02"), policy, Written()))
    assert any(ttl is Ttl.ONE_HOUR for _, ttl in lifetimes(slow(turn(0), "1"), policy, Written()))


def test_pings_are_planned_where_they_are_cheaper_than_an_hour(policy: Policy) -> None:
    cold = slow(turn(0), "0.3", keep_alive=True)
    planned = plan(cold, policy, Written(), NOW)
    assert planned.keep_alive
    assert all(m.ttl is None for m in planned.marks)


def test_no_pings_are_planned_where_an_hour_holds_the_prefix(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    send(cache, clock, draft_of(turn(0)), policy)
    draft = slow(turn(1), "1", keep_alive=True)
    assert not plan(draft, policy, cache.written(draft.request), clock()).keep_alive


@pytest.mark.parametrize(
    ("gap_s", "ttl", "n_marks"), [(60, None, 1), (600, Ttl.ONE_HOUR, 1), (7200, None, 0)]
)
def test_a_front_lives_as_long_as_its_readers_take_to_come(
    policy: Policy, gap_s: int, ttl: Ttl | None, n_marks: int
) -> None:
    shared = SharedPrefix(end=1, by=SharedBy.AGENT, reads=Decimal(2), gap_s=Decimal(gap_s))
    asked = request([user(block("task", 100))], system=[block("front", 50_000)])
    found = lifetimes(Draft(request=asked, shared=(shared,)), policy, Written())
    assert found == [(0, ttl)] * n_marks


def test_an_hour_on_the_front_goes_with_five_minutes_on_the_tail(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    asked = request([user(block("task", 3000))], system=[block("front", 50_000)])
    shared = (
        SharedPrefix(end=1, by=SharedBy.AGENT, reads=Decimal(3), gap_s=Decimal(1200)),
        SharedPrefix(end=2, by=SharedBy.RUN, reads=Decimal("0.85")),
    )
    sent = send(cache, clock, Draft(request=asked, shared=shared), policy)
    assert [(m.index, m.ttl) for m in sent.plan.marks] == [(0, Ttl.ONE_HOUR), (1, None)]
    assert dict(sent.served.split.writes) == {Ttl.ONE_HOUR: 50_000, Ttl.FIVE_MINUTES: 3000}


def test_a_long_lived_entry_is_named_again_before_its_time_is_up(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """Reads of longer entries do not renew it; a mark on it does, and costs nothing."""
    send(cache, clock, draft_of(turn(0)), policy)
    send(cache, clock, slow(turn(1), "0.1"), policy)
    named = []
    for number in range(2, 22):
        clock.advance(200)
        sent = send(cache, clock, draft_of(turn(number), agent=0), policy)
        named.append(any(m.index == 2 for m in sent.plan.marks))
    entry = cache.written(turn(21)).at(2)
    assert entry is not None
    assert entry.ttl is Ttl.ONE_HOUR
    assert True in named


@pytest.mark.parametrize(
    "identity",
    [{"thinking": "enabled:4096"}, {"output_format": "answer"}, {"tool_choice": "any"}],
)
def test_where_the_api_takes_no_ping_none_is_counted_on(
    policy: Policy, identity: dict[str, Any]
) -> None:
    """A request without an answer is refused with these, so an hour is bought instead."""
    asked = turn(0)
    asked = replace(asked, identity=replace(asked.identity, **identity))
    planned = plan(slow(asked, "0.9", keep_alive=True), policy, Written(), NOW)
    assert not planned.keep_alive
    assert any(m.ttl is Ttl.ONE_HOUR for m in planned.marks)


@pytest.mark.parametrize(("api", "pings"), [("responses", True), ("chat", False)])
def test_openais_chat_api_has_no_pings(api: Literal["responses", "chat"], pings: bool) -> None:
    model = "gpt-6.1-sol"
    asked = replace(request([user(block("q", 90_000))], model=model), openai=OpenAiOptions(api=api))
    draft = draft_of(asked, slow_chance=Decimal("0.3"), slow_gap_s=Decimal(3000), keep_alive=True)
    assert plan(draft, policy_of("openai", model), Written(), NOW).keep_alive is pings
