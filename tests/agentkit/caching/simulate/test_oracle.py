"""The lower bound: simple cases by hand, and no simulated placement ever costs less."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as D
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.caching.policy import AnthropicPolicy, Ttl, anthropic_policy, openai_policy
from agentkit.caching.request import Block, CacheRequest, Identity, Mark, Message, Role
from agentkit.caching.simulate import ManualClock, SimulatedAnthropic
from agentkit.caching.simulate.oracle import Use, least_cost
from agentkit.caching.simulate.served import Served

START = datetime(2026, 11, 27, 12, tzinfo=UTC)
MODEL = "claude-sonnet-5-5"  # 2.00 a million, read 0.10, written 2.50 or 4.00
POLICY = anthropic_policy(MODEL, date(2026, 11, 27))


def request(*blocks: tuple[str, int], marks: dict[int, Ttl] | None = None) -> CacheRequest:
    made = tuple(
        Block(
            digest=name.encode(),
            n_tokens=n_tokens,
            mark=Mark(marks[index]) if marks and index in marks else None,
        )
        for index, (name, n_tokens) in enumerate(blocks)
    )
    return CacheRequest(identity=Identity(model=MODEL), messages=(Message(Role.USER, made),))


def use(after_s: float, *blocks: tuple[str, int]) -> Use:
    return Use(at=START + timedelta(seconds=after_s), request=request(*blocks))


def test_a_prompt_that_is_sent_once_is_plain_input() -> None:
    assert least_cost([use(0, ("a", 1_000_000))], POLICY) == D(2)


def test_a_prompt_that_is_sent_twice_is_written_and_read() -> None:
    uses = [use(0, ("a", 1_000_000)), use(60, ("a", 1_000_000))]

    assert least_cost(uses, POLICY) == D("2.5") + D("0.1")


def test_over_a_gap_a_keep_alive_is_cheaper_than_the_longer_lifetime() -> None:
    uses = [use(0, ("a", 1_000_000)), use(450, ("a", 1_000_000))]

    assert least_cost(uses, POLICY) == D("2.5") + D("0.1") + D("0.1")


def test_over_a_long_gap_the_longer_lifetime_is_cheaper_than_many_keep_alives() -> None:
    uses = [use(0, ("a", 1_000_000)), use(3_500, ("a", 1_000_000))]

    # 11 keep-alives would be 1.10 more than 2.50 + 0.10; the lifetime of an hour is 4.00 + 0.10;
    # written twice it is 5.00, plain twice 4.00.
    assert least_cost(uses, POLICY) == D("2.5") + D("0.1") * 12


def test_a_prompt_below_the_minimum_is_never_cached() -> None:
    uses = [use(0, ("a", 500)), use(1, ("a", 500))]

    assert least_cost(uses, POLICY) == 2 * D(500) * 2 / 1_000_000


def test_siblings_that_start_together_may_read_what_the_first_one_writes() -> None:
    uses = [use(0, ("a", 1_000_000), (f"task {n}", 0)) for n in range(8)]

    assert least_cost(uses, POLICY) == D("2.5") + 7 * D("0.1")


def test_where_writing_is_free_everything_is_written() -> None:
    policy = openai_policy("gpt-5.4", date(2026, 11, 27))
    uses = [use(0, ("a", 100_000)), use(1, ("a", 100_000))]

    assert least_cost(uses, policy) == D("0.25") + D("0.025")


SIZES = st.sampled_from([200, 600, 1500])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, list[tuple[str, int]]]]:
    blocks = [(f"b{n}", draw(SIZES)) for n in range(4)]
    lengths = sorted(draw(st.lists(st.integers(1, 4), min_size=2, max_size=3)))
    at, found = 0.0, []
    for length in lengths:
        found.append((at, blocks[:length]))
        at += draw(st.sampled_from([10.0, 290.0, 310.0]))
    return found


def _simulated(history: list[tuple[float, list[tuple[str, int]]]], choice: tuple[object, ...]) -> D:
    clock = ManualClock(START)
    cache = SimulatedAnthropic(clock=clock)
    total, last = D(0), 0.0
    for (at, blocks), marks in zip(history, choice, strict=True):
        clock.advance(at - last)
        last = at
        served = cache.request(request(*blocks, marks=dict.fromkeys(marks, Ttl.FIVE_MINUTES)))  # type: ignore[call-overload]
        assert isinstance(served, Served)
        assert served.cost is not None
        total += served.cost.total
    return total


@settings(max_examples=6, deadline=None)
@given(histories())
def test_no_placement_of_marks_costs_less(
    history: list[tuple[float, list[tuple[str, int]]]],
) -> None:
    bound = least_cost([use(at, *blocks) for at, blocks in history], POLICY)
    choices = [
        [subset for n in range(len(blocks) + 1) for subset in combinations(range(len(blocks)), n)]
        for _, blocks in history
    ]

    best = min(_simulated(history, choice) for choice in product(*choices))

    assert isinstance(POLICY, AnthropicPolicy)
    assert bound <= best
