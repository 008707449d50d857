"""What is left of limits, whoever asks for it and in which order."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import ConfigurationError, LimitReached, Limits
from agentkit.budget import Budget
from agentkit.limits import LimitUse
from agentkit.quote import Quote
from tests.agentkit.priced import record


def quote(usd: str = "0", *, n_output: int = 0) -> Quote:
    return Quote(turns=0, usd=Decimal(usd), output_tokens=n_output)


def test_children_share_what_is_left_and_inherit_nothing() -> None:
    """C79: 1.00 allowed, 0.60 spent: two children have 0.40 together, not 1.00 or 0.40 each."""
    above = Budget(Limits(usd=1.0))
    above.count_request(record("0.60"))
    children = [above.below(None), above.below(Limits(usd=5))]

    children[0].count_request(record("0.25"))
    children[1].count_request(record("0.14"))
    for budget in (above, *children):
        budget.check()
    assert above.uses == (LimitUse(name="usd", allowed=Decimal("1.0"), used=Decimal("0.99")),)
    assert above.uses[0].left == Decimal("0.01")

    children[0].count_request(record("0.01"))
    for budget in (above, *children):
        with pytest.raises(LimitReached, match=r"usd=1\.0 is reached: 1\.00 used"):
            budget.check()


async def test_what_does_not_fit_beside_others_waits_for_them() -> None:
    budget = Budget(Limits(usd=1))
    first = await budget.reserve(quote("0.6"))
    second = asyncio.create_task(budget.reserve(quote("0.6")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()

    budget.count_request(record("0.3"))
    first.settle()
    (await second).settle()


async def test_one_that_is_alone_may_pass_the_limit_and_then_nobody_may() -> None:
    budget = Budget(Limits(usd=1))
    reservation = await budget.reserve(quote("7"))
    waits = asyncio.create_task(budget.reserve(quote("0.01")))
    await asyncio.sleep(0)
    budget.count_request(record("6.5"))
    reservation.settle()
    with pytest.raises(LimitReached):
        await waits
    assert budget.uses[0].left == 0


async def test_who_came_first_goes_first_also_past_a_smaller_one() -> None:
    """A request that needs much is not starved by those that would fit into what it waits for."""
    budget = Budget(Limits(usd=10))
    order: list[str] = []

    async def ask(name: str, usd: str) -> None:
        reservation = await budget.reserve(quote(usd))
        order.append(name)
        await asyncio.sleep(0)
        reservation.settle()

    held = await budget.reserve(quote("6"))
    tasks = [
        asyncio.create_task(ask("big", "9")),
        *(asyncio.create_task(ask(f"small {n}", "1")) for n in range(3)),
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == []
    held.settle()
    await asyncio.gather(*tasks)
    assert order == ["big", "small 0", "small 1", "small 2"]


async def test_who_waits_for_limits_of_its_own_holds_up_nobody_else() -> None:
    above = Budget(Limits(usd=10))
    below = above.below(Limits(usd=1))
    held = await below.reserve(quote("1"))
    waits = asyncio.create_task(below.reserve(quote("1")))
    await asyncio.sleep(0)
    other = await asyncio.wait_for(above.reserve(quote("1")), timeout=30)
    assert not waits.done()
    other.settle()
    held.settle()
    (await waits).settle()


async def test_who_is_cancelled_while_it_waits_leaves_the_line() -> None:
    budget = Budget(Limits(usd=10))
    held = await budget.reserve(quote("6"))
    big, small = (asyncio.create_task(budget.reserve(quote(usd))) for usd in ("9", "1"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not small.done()
    big.cancel()
    (await small).settle()
    held.settle()
    (await budget.reserve(quote("10"))).settle()


async def test_who_is_cancelled_as_it_is_let_in_holds_nothing() -> None:
    budget = Budget(Limits(usd=1))
    held = await budget.reserve(quote("1"))
    waits = asyncio.create_task(budget.reserve(quote("1")))
    await asyncio.sleep(0)
    held.settle()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    last = await asyncio.wait_for(budget.reserve(quote("1")), timeout=30)
    last.settle()


async def test_a_cancel_as_the_last_request_ends_keeps_nobody_from_hearing_of_it() -> None:
    """As where several subagents reach one deadline, while others wait for the same limit."""
    budget = Budget(Limits(turns=1))
    held = await budget.reserve(Quote())
    cancelled, other = (asyncio.create_task(budget.reserve(Quote())) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    budget.count_turn()
    held.settle()
    with pytest.raises(LimitReached):
        await asyncio.wait_for(other, timeout=30)
    with pytest.raises(asyncio.CancelledError):
        await cancelled


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 40),
    costs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=25),
    own=st.one_of(st.none(), st.integers(1, 12)),
    seed=st.integers(0, 1_000),
)
def test_however_requests_come_and_go_a_limit_is_passed_by_one_of_them_at_most(
    limit: int, costs: list[tuple[int, int]], own: int | None, seed: int
) -> None:
    """Quotes are bounds here: each costs up to its quote. Some are cancelled anywhere."""
    chance = random.Random(seed)
    above = Budget(Limits(output_tokens=limit))
    below = above.below(None if own is None else Limits(output_tokens=own))
    ended: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def ask(budget: Budget, least: int, more: int) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        try:
            reservation = await budget.reserve(quote(n_output=least + more))
        except LimitReached:
            return
        try:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            used = least + chance.randrange(more + 1)
            budget.count_request(record(n_output=used))
            ended.append(used)
            if chance.random() < 0.3:  # others end in the same moment
                for task in chance.sample(tasks, chance.randrange(len(tasks))):
                    task.cancel()
        finally:
            reservation.settle()

    async def main() -> None:
        tasks.extend(
            asyncio.create_task(ask(chance.choice((above, below)), *cost)) for cost in costs
        )
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
        done, running = await asyncio.wait(tasks, timeout=30)
        assert not running, "a request waits for ever"
        assert not [task for task in done if not task.cancelled() and task.exception()]

    asyncio.run(main())
    assert sum(ended) < limit + max(ended, default=1)
    for budget in (above, below):
        (use,) = budget.uses
        assert use.used < use.allowed + max(ended, default=1)
        assert budget._n_under_way == 0
        assert set(budget._reserved.values()) == {0}


def test_what_a_provider_did_not_say_is_estimated_and_said_to_be() -> None:
    budget = Budget(Limits(usd=1, tokens=1_000))
    guess = Quote(input_tokens=300, output_tokens=20, usd=Decimal("0.9"))
    budget.count_request(record(n_input=310, n_output=None), guess)
    budget.count_request(record("0.2", n_input=100, n_output=10), guess)
    usd, tokens = sorted(budget.uses, key=lambda use: use.name, reverse=True)
    assert (usd.used, usd.assumed, usd.n_unknown) == (Decimal("1.1"), Decimal("0.9"), 1)
    assert (tokens.used, tokens.n_unknown) == (Decimal(430), 1)
    with pytest.raises(LimitReached, match=r"0\.9 of it estimated, for one request of unknown use"):
        budget.check()


def test_a_request_that_failed_before_it_began_has_used_nothing() -> None:
    budget = Budget(Limits(usd=1, tokens=1_000))
    budget.count_request(record(n_input=None, n_output=None))
    assert not any(use.used or use.n_unknown for use in budget.uses)


def test_tool_calls_are_all_counted_or_none_is() -> None:
    above = Budget(Limits(tool_calls=5))
    below = above.below(Limits(tool_calls=3))
    below.count_tool_calls(2)
    with pytest.raises(LimitReached, match=r"tool_calls=3 is reached: 2 used .*wants 2 more"):
        below.count_tool_calls(2)
    above.count_tool_calls(3)
    with pytest.raises(LimitReached, match="tool_calls=5"):
        below.count_tool_calls(1)


def test_time_counts_from_the_beginning_and_over_several_processes() -> None:
    now = [100.0]
    budget = Budget(Limits(seconds=60), clock=lambda: now[0])
    now[0] = 500.0
    assert budget.seconds_left == 60
    budget.begin()
    now[0] += 20
    budget.begin()
    assert budget.seconds_left == 40
    later = Budget(Limits(seconds=60), clock=lambda: now[0])
    later.restore((), seconds=59, n_tool_calls=0)
    later.begin()
    assert later.seconds_left == 1
    now[0] += 1.5
    with pytest.raises(LimitReached, match=r"seconds=60 is reached: 60\.5 used"):
        later.check()


def test_the_nearest_deadline_counts() -> None:
    now = [0.0]
    above = Budget(Limits(seconds=60), clock=lambda: now[0])
    above.begin()
    now[0] = 50.0
    below = above.below(Limits(seconds=30))
    below.begin()
    assert below.seconds_left == 10
    assert "seconds=60" in str(below.out_of_time())


def test_no_limits_cost_nothing() -> None:
    budget = Budget(Limits()).below(None)
    budget.count_request(record("5"))
    assert budget.uses == ()
    assert budget.seconds_left is None
    assert not budget.needs_quotes


@pytest.mark.parametrize(
    "given",
    [
        {"turns": 0},
        {"turns": 1.5},
        {"usd": -1},
        {"usd": float("nan")},
        {"seconds": True},
        {"tokens": "9"},
        {"usd": float("inf")},
        {"allow_unpriced": 1},
    ],
)
def test_a_limit_that_is_none_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=f"Limits.{next(iter(given))} must be"):
        Limits(**given)  # type: ignore[arg-type]
