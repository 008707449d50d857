"""Throttles: who waits for how long, whose turn it is, and what providers' headers teach."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import Agent, ConfigurationError, ModelError
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Failure, Reply
from agentkit.models import FallbackModel, resolve_model
from agentkit.models.hosted.rate_headers import told
from agentkit.models.rates import RateLimits, Told
from agentkit.models.throttle import Throttle, limit_rates
from agentkit.testing import ScriptedModel
from agentkit.usage import Usage
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld

NOTHING = Usage()
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Line:
    """A throttle in virtual time, and when each request was let through."""

    def __init__(self, limits: RateLimits | None = None, **more: Any) -> None:
        self.time = VirtualTime()
        self.throttle = Throttle(limits, time=self.time, **more)
        self.began = self.time.now()
        self.log: list[tuple[str, float]] = []
        self.most = 0

    async def ask(self, name: str, takes_s: float = 0.0, usage: Usage = NOTHING) -> float:
        slot = await self.throttle.enter()
        self.log.append((name, (self.time.now() - self.began).total_seconds()))
        self.most = max(self.most, self.throttle.n_running)
        try:
            await self.time.sleep(takes_s)
        finally:
            slot.leave(usage)
        return slot.waited_s

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def driven() -> Any:
            async def begun() -> Any:
                return await work()

            return await self.time.drive(begun())

        return asyncio.run(driven())


def test_no_more_than_so_many_at_once_and_who_came_first_goes_first() -> None:
    line = Line(RateLimits(max_concurrent=2))

    async def work() -> list[float]:
        return await asyncio.gather(*(line.ask(str(n), 10.0) for n in range(6)))

    waited = line.run(work)
    assert line.most == 2
    assert line.log == [("0", 0), ("1", 0), ("2", 10), ("3", 10), ("4", 20), ("5", 20)]
    assert waited == [0, 0, 10, 10, 20, 20]
    assert (line.throttle.n_running, line.throttle.n_waiting) == (0, 0)


def test_a_rate_allows_a_minutes_worth_at_once_and_then_one_after_the_other() -> None:
    line = Line(RateLimits(requests_per_minute=3))

    async def work() -> None:
        await asyncio.gather(*(line.ask(str(n)) for n in range(6)))

    line.run(work)
    assert [at for _, at in line.log] == pytest.approx([0, 0, 0, 20, 40, 60], abs=0.01)


@pytest.mark.parametrize(("counts_cached", "waits"), [(True, [0, 20, 40]), (False, [0, 0, 12])])
def test_tokens_count_as_they_are_used_and_those_from_a_cache_only_where_they_count(
    counts_cached: bool, waits: list[float]
) -> None:
    """A minute's worth is 1,500; each request takes 1,000, or 600 of them."""
    usage = Usage(input_tokens=1_000, cache_read_tokens=400, output_tokens=0)
    limits = RateLimits(input_tokens_per_minute=1_500)
    line = Line(limits, counts_cached=counts_cached)

    async def work() -> list[float]:
        return [await line.ask(str(n), usage=usage) for n in range(3)]

    assert line.run(work) == pytest.approx(waits, abs=0.01)


def test_what_the_provider_has_left_is_not_passed_before_it_is_whole_again() -> None:
    line = Line()

    async def work() -> None:
        line.throttle.told([Told(kind="requests", remaining=2, reset_s=30)])
        await asyncio.gather(*(line.ask(str(n)) for n in range(4)))

    line.run(work)
    assert [at for _, at in line.log] == [0, 0, 30, 30]


def test_one_refusal_holds_up_all_for_as_long_as_the_provider_asks() -> None:
    line = Line()

    async def work() -> None:
        await line.ask("first")
        line.throttle.failed(ModelError("429", retryable=True, retry_after_s=12))
        await asyncio.gather(line.ask("a"), line.ask("b"))
        line.throttle.failed(ModelError("429", retryable=True, retry_after_s=4_000))
        await line.ask("is told itself")

    line.run(work)
    assert [at for _, at in line.log] == [0, 12, 12, 12]


def test_who_is_cancelled_while_it_waits_leaves_the_line() -> None:
    line = Line(RateLimits(max_concurrent=1))

    async def work() -> None:
        tasks = [asyncio.create_task(line.ask(name, 10.0)) for name in "abc"]
        await line.time.sleep(1)
        tasks[1].cancel()
        await asyncio.gather(tasks[0], tasks[2])

    line.run(work)
    assert line.log == [("a", 0), ("c", 10)]
    assert line.throttle.n_waiting == 0


def test_new_bounds_hold_for_those_that_wait_already() -> None:
    line = Line(RateLimits(max_concurrent=1))

    async def work() -> None:
        tasks = [asyncio.create_task(line.ask(name, 10.0)) for name in "abc"]
        await line.time.sleep(1)
        line.throttle.limits = RateLimits(max_concurrent=3)
        await asyncio.gather(*tasks)

    line.run(work)
    assert [at for _, at in line.log] == [0, 1, 1]


def test_one_throttle_serves_several_event_loops() -> None:
    throttle, most = Throttle(RateLimits(max_concurrent=2)), [0]

    async def asks() -> None:
        for _ in range(20):
            slot = await throttle.enter()
            most[0] = max(most[0], throttle.n_running)
            await asyncio.sleep(0)
            slot.leave(NOTHING)

    async def loop() -> None:
        await asyncio.gather(asks(), asks())

    threads = [threading.Thread(target=lambda: asyncio.run(loop())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    assert 1 <= most[0] <= 2
    assert (throttle.n_running, throttle.n_waiting) == (0, 0)


@settings(max_examples=40, deadline=None)
@given(
    most=st.integers(1, 4),
    asks=st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.booleans()), min_size=1, max_size=15
    ),
    left=st.integers(0, 5),
)
def test_however_they_come_and_go_nobody_waits_for_ever_and_the_bound_holds(
    most: int, asks: list[tuple[float, float, bool]], left: int
) -> None:
    line = Line(RateLimits(max_concurrent=most, requests_per_minute=60))

    async def one(after_s: float, takes_s: float, is_cancelled: bool) -> None:
        await line.time.sleep(after_s)
        task = asyncio.create_task(line.ask("x", takes_s))
        if is_cancelled:
            await line.time.sleep(takes_s / 2)
            task.cancel()
        await asyncio.wait([task])

    async def work() -> None:
        line.throttle.told([Told(kind="requests", remaining=left, reset_s=7)])
        await asyncio.gather(*(one(*ask) for ask in asks))

    line.run(work)
    assert line.most <= most
    assert (line.throttle.n_running, line.throttle.n_waiting) == (0, 0)


def test_headers_of_anthropic_and_of_those_that_speak_like_openai_are_understood() -> None:
    anthropic = {
        "Anthropic-Ratelimit-Requests-Limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-27T12:00:30Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-27T11:59:00Z",
        "anthropic-ratelimit-output-tokens-remaining": "many",
        "anthropic-ratelimit-output-tokens-reset": "2026-11-27T12:00:30Z",
    }
    assert list(told(anthropic, NOW)) == [
        Told(kind="requests", remaining=49, reset_s=30),
        Told(kind="input_tokens", remaining=0, reset_s=0),
    ]
    openai = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m2.5s",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6ms",
        "x-ratelimit-remaining-images": "1",
    }
    assert list(told(openai, NOW)) == [
        Told(kind="requests", remaining=0, reset_s=62.5),
        Told(kind="tokens", remaining=149_984, reset_s=0.006),
    ]
    assert list(told({}, NOW)) == []
    assert (
        list(told({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, NOW))
        == []
    )


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "gemini"])
def test_all_runs_of_a_model_wait_where_its_provider_says_that_nothing_is_left(
    provider: str,
) -> None:
    """In virtual time, over the official client: runs wait until it is whole again, and say so."""

    def respond(ask: Ask) -> Reply:
        reset = world.time.now() + timedelta(seconds=40)
        headers = {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": reset.isoformat(),
        }
        if provider != "anthropic":
            headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "40s"}
        return Reply(text="ok", headers=headers)

    world = HostedWorld(respond, provider)
    agent = Agent(model=world.model, instructions="x")

    async def work() -> list[Any]:
        first = await agent.run("One.")
        return [first, *await asyncio.gather(agent.run("Two."), agent.run("Three."))]

    results = world.run(work)
    queued = [result.requests[0].timing.queued_s for result in results]
    assert queued == [None, pytest.approx(40), pytest.approx(40)]


def test_a_refusal_with_a_wait_holds_up_the_other_runs_of_the_model_too() -> None:
    refused: list[datetime] = []
    asked: list[float] = []

    def respond(ask: Ask) -> Reply | Failure:
        if not refused:
            refused.append(world.time.now())
            return Failure(status=429, retry_after_s=25)
        asked.append((world.time.now() - refused[0]).total_seconds())
        return Reply(text="ok")

    world = HostedWorld(respond)
    agent = Agent(model=world.model, instructions="x")

    async def second() -> Any:
        await world.time.sleep(1)
        return await agent.run("Two.")

    async def first() -> Any:
        with pytest.raises(ModelError):
            await Agent(model=world.model, instructions="x", max_retries=0).run("One.")

    async def work() -> Any:
        return (await asyncio.gather(first(), second()))[1]

    result = world.run(work)
    assert asked == [pytest.approx(25)]
    assert result.requests[0].timing.queued_s == pytest.approx(24)


def test_a_wait_that_ends_between_two_ticks_of_the_clock_ends() -> None:
    line = Line()
    line.throttle.told([Told(kind="requests", remaining=0, reset_s=1.2345674)])
    line.run(lambda: asyncio.wait_for(line.ask("a"), 30))
    assert line.log == [("a", pytest.approx(1.234567))]


def test_who_waited_in_a_loop_that_was_closed_holds_nobody_up() -> None:
    throttle = Throttle(RateLimits(max_concurrent=1))
    slot = asyncio.run(throttle.enter())
    loop = asyncio.new_event_loop()
    dead = loop.create_task(throttle.enter())
    loop.run_until_complete(asyncio.sleep(0))
    assert throttle.n_waiting == 1
    loop.close()

    slot.leave(NOTHING)
    assert (throttle.n_running, throttle.n_waiting) == (0, 0)
    asyncio.run(asyncio.wait_for(throttle.enter(), 30)).leave(NOTHING)
    dead.get_coro().close()  # type: ignore[union-attr]
    dead._log_destroy_pending = False  # type: ignore[attr-defined]


def test_who_stands_behind_a_loop_that_is_closed_later_goes_on() -> None:
    time = VirtualTime()
    throttle = Throttle(RateLimits(max_concurrent=1), time=time)
    slot = asyncio.run(throttle.enter())
    loop = asyncio.new_event_loop()
    dead = loop.create_task(throttle.enter())
    loop.run_until_complete(asyncio.sleep(0))

    async def behind() -> None:
        entering = asyncio.create_task(throttle.enter())
        await asyncio.sleep(0)
        throttle._left({}, NOTHING)  # wakes the first, whose loop does not run again
        loop.close()
        await entering

    asyncio.run(asyncio.wait_for(time.drive(behind()), 30))
    assert (throttle.n_running, throttle.n_waiting) == (1, 0)
    del slot
    dead.get_coro().close()  # type: ignore[union-attr]
    dead._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_model_takes_bounds_and_is_left_by_a_failed_a_closed_and_a_finished_request() -> None:
    def respond(ask: Ask) -> Reply | Failure:
        if "fail" in ask.user_text:
            return Failure(status=400)
        return Reply(text="word " * 50, seconds=5)

    world = HostedWorld(respond)
    world.model.throttle.limits = RateLimits(max_concurrent=1)
    agent = Agent(model=world.model, instructions="x")

    async def work() -> str:
        with pytest.raises(ModelError):
            await agent.run("fail")
        async with agent.stream("leave early") as events:
            async for _ in events:
                break
        return (await agent.run("last")).output

    assert world.run(work).startswith("word")
    assert (world.model.throttle.n_running, world.model.throttle.n_waiting) == (0, 0)


def test_a_model_string_is_bounded_for_all_who_name_it() -> None:
    limits = RateLimits(max_concurrent=3)
    model = cast(Any, limit_rates("anthropic:claude-haiku-5", limits))
    assert id(resolve_model("anthropic:claude-haiku-5")) == id(model)
    assert model.throttle.limits == limits
    limit_rates(FallbackModel([model, ScriptedModel([])]), RateLimits())
    assert model.throttle.limits == RateLimits()
    with pytest.raises(ConfigurationError, match="'scripted' has no throttle"):
        limit_rates(ScriptedModel([]), limits)


@pytest.mark.parametrize("given", [{"max_concurrent": 0}, {"requests_per_minute": 1.5}])
def test_a_bound_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"RateLimits.{next(iter(given))} must be"):
        RateLimits(**given)


def test_rates_are_given_as_rates() -> None:
    limits: Any = {"requests_per_minute": 3}
    with pytest.raises(ConfigurationError, match=r"RateLimits\(requests_per_minute=60\), got"):
        Throttle(limits)
    throttle = Throttle()
    with pytest.raises(ConfigurationError, match="rates are given as RateLimits"):
        throttle.limits = limits
    assert throttle.limits == RateLimits()
