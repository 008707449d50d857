"""Token estimates, gaps, siblings: the small parts of the tracker."""

from __future__ import annotations

import asyncio
from decimal import Decimal as D

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.request import Block, CacheRequest, Identity, Message, Role
from agentkit.caching.times import VirtualTime
from agentkit.caching.track.flights import Flight, Flights
from agentkit.caching.track.gaps import Gaps
from agentkit.caching.track.implicit import ImplicitShare
from agentkit.caching.track.scale import Counted, TokenScale


def _request(*sizes: int) -> CacheRequest:
    blocks = tuple(Block(digest=bytes([n]), n_tokens=size) for n, size in enumerate(sizes))
    return CacheRequest(
        identity=Identity(model="m"), tools=blocks[:1], messages=(Message(Role.USER, blocks[1:]),)
    )


def _sizes(request: CacheRequest) -> list[int]:
    return [block.n_tokens for block in request.blocks]


def test_estimates_are_taken_as_they_are_before_anything_was_counted() -> None:
    request = _request(100, 50)

    assert TokenScale().scaled(request, None) is request


def test_a_counted_prompt_corrects_the_next_estimates() -> None:
    scale = TokenScale()
    scale.learn(Counted(n_blocks=2, estimated=1000, actual=1300))

    assert _sizes(scale.scaled(_request(100, 50), None)) == [130, 65]


def test_the_blocks_of_a_counted_prompt_have_exactly_its_tokens() -> None:
    known = Counted(n_blocks=2, estimated=150, actual=157)

    sizes = _sizes(TokenScale().scaled(_request(100, 50, 10), known))

    assert sum(sizes[:2]) == 157
    assert sizes[2] == 10


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=9), st.integers(1, 20_000))
def test_corrected_lengths_add_up_and_are_never_negative(sizes: list[int], actual: int) -> None:
    known = Counted(n_blocks=len(sizes), estimated=sum(sizes), actual=actual)

    scaled = _sizes(TokenScale().scaled(_request(*sizes), known))

    assert min(scaled) >= 0
    assert sum(scaled) == (actual if sum(sizes) else 0)


def test_slow_gaps_are_unlikely_until_one_was_seen() -> None:
    gaps = Gaps(slow_from_s=300)
    before = gaps.pace.slow_chance
    gaps.learn(600)

    assert before < D("0.03")
    assert gaps.pace.slow_chance > D("0.15")
    assert gaps.pace.slow_gap_s == 600


def test_a_run_of_usual_gaps_forgets_a_slow_one() -> None:
    gaps = Gaps(slow_from_s=300)
    gaps.learn(600)
    for _ in range(30):
        gaps.learn(10)

    assert gaps.pace.slow_chance < D("0.03")
    assert gaps.pace.gap_s < 12


def test_always_slow_tools_become_expected() -> None:
    gaps = Gaps(slow_from_s=300)
    for _ in range(12):
        gaps.learn(600)

    assert gaps.pace.slow_chance > D("0.5")


def test_an_implicit_cache_is_trusted_until_it_falls_short_and_again_when_it_works() -> None:
    implicit = ImplicitShare()
    implicit.learn(predicted=0, actual=0)
    assert implicit.share == 1
    for _ in range(4):
        implicit.learn(predicted=10_000, actual=0)
    assert implicit.share < D("0.3")
    for _ in range(8):
        implicit.learn(predicted=10_000, actual=12_000)
    assert D("0.9") < implicit.share <= 1


def test_a_request_follows_the_one_that_writes_most_of_its_prompt() -> None:
    flights = Flights()
    front = Flight(keys=(b"t", b"s", b"x"), writes=frozenset((1,)))
    more = Flight(keys=(b"t", b"s", b"q"), writes=frozenset((1, 2)))
    flights.start(front)
    flights.start(more)

    assert flights.leader((b"t", b"s", b"q", b"r"), 0) == (more, 3)
    assert flights.leader((b"t", b"s", b"z"), 0) == (front, 2)
    assert flights.leader((b"t", b"s", b"z"), 2) is None
    assert flights.leader((b"other",), 0) is None


def test_where_everything_is_written_the_longest_common_beginning_is_waited_for() -> None:
    flights = Flights()
    flight = Flight(keys=(b"t", b"s", b"q"), writes=None)
    flights.start(flight)

    assert flights.leader((b"t", b"s", b"q2", b"r"), 0) == (flight, 2)
    assert flights.leader((b"t", b"s", b"q", b"r"), 1) == (flight, 3)
    assert flights.leader((b"x",), 0) is None


def test_a_request_whose_response_began_is_not_waited_for() -> None:
    flights = Flights()
    flight = Flight(keys=(b"t",), writes=frozenset((0,)))
    flights.start(flight)
    flights.begin(flight)
    flights.begin(flight)

    assert flight.begun.is_set()
    assert flights.leader((b"t",), 0) is None


async def test_sleepers_in_virtual_time_wake_in_the_order_of_their_times() -> None:
    time, woken = VirtualTime(), []

    async def sleeper(seconds: float) -> None:
        await time.sleep(seconds)
        woken.append((seconds, (time.now() - start).total_seconds()))

    start = time.now()
    async with asyncio.TaskGroup() as group:
        for seconds in (20.0, 5.0, 10.0):
            group.create_task(sleeper(seconds))
        await asyncio.sleep(0)
        await time.advance(12)
        assert woken == [(5.0, 5.0), (10.0, 10.0)]
        await time.advance(8)

    assert woken[-1] == (20.0, 20.0)


async def test_virtual_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        await VirtualTime().advance(-1)


async def test_driven_work_sleeps_through_hours_at_once() -> None:
    time = VirtualTime()

    async def work() -> list[float]:
        start, ends = time.now(), []

        async def nap(seconds: float) -> None:
            await time.sleep(seconds)
            ends.append((time.now() - start).total_seconds())

        async with asyncio.TaskGroup() as group:
            group.create_task(nap(7200.0))
            group.create_task(nap(60.0))
        await asyncio.to_thread(lambda: None)
        await nap(1.0)
        return ends

    assert await time.drive(work()) == [60.0, 7200.0, 7201.0]


async def test_a_sleeper_that_was_cancelled_does_not_move_the_time() -> None:
    time = VirtualTime()
    start = time.now()

    async def work() -> None:
        sleeper = asyncio.create_task(time.sleep(900))
        await asyncio.sleep(0)
        sleeper.cancel()
        await time.sleep(5)

    await time.drive(work())
    assert (time.now() - start).total_seconds() == 5
