"""Who is let in, by the state of the engine."""

from __future__ import annotations

import dataclasses
from typing import cast

import pytest

from agentkit_runtime.api.asked import Asked
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.attention.base import AttentionStats
from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool
from agentkit_runtime.governing.complexity import ComplexityLimits, check_complexity
from agentkit_runtime.governing.gate import GateLimits, PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.governing.pressure import PressureLimits, pressure_of
from agentkit_runtime.sched.stats import SchedulerStats
from agentkit_runtime.stats import CoreStats
from agentkit_runtime.types import Priority, SamplingParams


def stats(
    *,
    held: int = 0,
    waiting: int = 0,
    waiting_tokens: int = 0,
    oldest_wait_s: float = 0.0,
    computed: int = 0,
    prefill: tuple[int, float, int] = (0, 0.0, 0),
) -> CoreStats:
    """`prefill`: prompt tokens computed, seconds, for how many requests."""
    scheduler = SchedulerStats(
        waiting={}, waiting_tokens=waiting_tokens, running=0, prefilling=0, following=0, loading=0,
        oldest_wait_s=oldest_wait_s, preemptions=0, overtakes=0, late=0,
    )  # fmt: skip
    return CoreStats(
        running=0, waiting=waiting, total_slots=1000, free_slots=900 - held, cached_slots=100,
        steps=0, computed_tokens=computed, prompt_tokens=0, hit_tokens=0, preemptions=0,
        prefill_tokens=prefill[0], prefill_s=prefill[1], cold_requests=prefill[2],
        scheduler=scheduler, attention=AttentionStats(),
    )  # fmt: skip


class Engine:
    def __init__(self) -> None:
        self.now = stats()

    def stats(self) -> CoreStats:
        return self.now


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def asked(priority: Priority = Priority.NORMAL, n: int = 1) -> Asked:
    chat = ChatRequest(messages=(ChatMessage(role="user", content="hi"),), priority=priority)
    return Asked(id="r", endpoint="/v1/x", caller=Caller(), chat=chat, n=n, headers={}, began_s=0.0)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def gate(engine: Engine, clock: Clock, **limits: object) -> PressureGate:
    # What the keyword arguments are is checked by the class itself.
    return PressureGate(
        engine, Lifecycle("ready"), GateLimits(**cast("dict[str, int]", limits)), clock=clock
    )


def refused(gate: PressureGate, asked: Asked) -> ApiError:
    with pytest.raises(ApiError) as raised:
        gate.enter(asked)
    return raised.value


@pytest.mark.parametrize(
    ("held", "oldest_wait_s", "waiting", "cause"),
    [
        (849, 0.0, 0, None),
        (850, 0.0, 0, "KV slots are held"),
        (0, 25.5, 0, "wait for long"),
        (0, 0.0, 218, "requests wait"),
    ],
)
def test_from_85_percent_on_batch_is_refused_and_the_others_go_on(
    engine: Engine, clock: Clock, held: int, oldest_wait_s: float, waiting: int, cause: str | None
) -> None:
    engine.now = stats(held=held, oldest_wait_s=oldest_wait_s, waiting=waiting)
    governed = gate(engine, clock)

    for priority in (Priority.NORMAL, Priority.INTERACTIVE):
        governed.enter(asked(priority)).leave()
    if cause is None:
        governed.enter(asked(Priority.BATCH)).leave()
    else:
        error = refused(governed, asked(Priority.BATCH))
        assert (error.status, error.code) == (429, "pressure")
        assert cause in error.message
        assert error.headers == {"Retry-After": "1"}
        assert governed.refused == {"pressure": 1}


def test_batch_is_refused_before_the_queue_is_old_when_it_is_long(
    engine: Engine, clock: Clock
) -> None:
    # 500 tokens a second, 250 for each request so far; 30 s are bearable.
    engine.now = stats(waiting=20, waiting_tokens=12_500, prefill=(5000, 10.0, 20))
    governed = gate(engine, clock)

    first = governed.enter(asked(Priority.BATCH))
    assert governed.pressure().wait == pytest.approx(25.5 / 30)
    error = refused(governed, asked(Priority.BATCH))
    assert (error.code, "wait for long" in error.message) == ("pressure", True)
    governed.enter(asked(Priority.INTERACTIVE)).leave()
    first.leave()
    governed.enter(asked(Priority.BATCH)).leave()


def test_a_full_queue_refuses_everybody_also_by_those_on_their_way_to_it(
    engine: Engine, clock: Clock
) -> None:
    engine.now = stats(waiting=7)
    governed = gate(engine, clock, pressure=PressureLimits(max_waiting=10))
    first = governed.enter(asked(n=3))

    assert refused(governed, asked(Priority.INTERACTIVE)).code == "queue_full"
    first.opened()  # the engine's own numbers have them from here on
    governed.enter(asked()).leave()


def test_as_many_requests_are_inside_as_may_be_and_each_leaves_once(
    engine: Engine, clock: Clock
) -> None:
    governed = gate(engine, clock, max_requests=2)
    first, _ = governed.enter(asked()), governed.enter(asked())

    assert refused(governed, asked()).code == "too_many_requests"
    first.opened()
    first.leave()
    governed.enter(asked())


@pytest.mark.parametrize("full", ["places", "queue"])
def test_the_last_places_are_kept_for_those_that_somebody_waits_for(
    engine: Engine, clock: Clock, full: str
) -> None:
    limits = PressureLimits(max_waiting=40)
    governed = gate(engine, clock, max_requests=40, pressure=limits)
    if full == "places":
        for _ in range(38):
            governed.enter(asked()).opened()
    else:
        engine.now = stats(waiting=38)

    assert refused(governed, asked()).status == 429
    for _ in range(2):
        governed.enter(asked(Priority.INTERACTIVE))
    assert refused(governed, asked(Priority.INTERACTIVE)).status == 429


def test_retry_after_is_how_long_the_queue_takes_at_todays_speed(
    engine: Engine, clock: Clock
) -> None:
    governed = gate(engine, clock, max_requests=1)
    governed.enter(asked())
    refused(governed, asked())
    clock.now_s += 10
    engine.now = stats(computed=1000, waiting_tokens=2_050)  # 100 tokens a second

    assert refused(governed, asked()).headers == {"Retry-After": "21"}
    engine.now = stats(computed=1000, waiting_tokens=1_000_000)
    assert refused(governed, asked()).headers == {"Retry-After": "60"}


@pytest.mark.parametrize("phase", ["starting", "draining"])
def test_who_starts_or_drains_takes_nothing(engine: Engine, clock: Clock, phase: str) -> None:
    lifecycle = Lifecycle()
    if phase == "draining":
        lifecycle.ready()
        lifecycle.drain()
    error = refused(PressureGate(engine, lifecycle, clock=clock), asked(Priority.INTERACTIVE))

    assert (error.status, error.code, error.retry_after_s) == (503, f"server_{phase}", 1.0)


def test_a_stopped_server_never_comes_back() -> None:
    lifecycle = Lifecycle("ready")
    lifecycle.stop()
    lifecycle.ready()
    lifecycle.drain()

    assert lifecycle.phase == "stopped"


async def test_a_drain_waits_for_the_last_request(engine: Engine, clock: Clock) -> None:
    lifecycle = Lifecycle("ready")
    inside = PressureGate(engine, lifecycle, clock=clock).enter(asked())

    assert not await lifecycle.emptied(0)
    inside.leave()
    assert await lifecycle.emptied(0)


def test_pressure_is_the_largest_share_and_never_more_than_1() -> None:
    pressure = pressure_of(
        stats(held=900, waiting=10_000, oldest_wait_s=3), PressureLimits(), n_coming=1
    )

    assert (pressure.slots, pressure.queue, pressure.wait) == (0.9, 1.0, 0.1)
    assert (pressure.index, pressure.cause) == (1.0, "requests wait")


DEEP: dict[str, object] = {"type": "object"}
for _ in range(70):
    DEEP = {"items": DEEP}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (DEEP, "nested deeper than 64"),
        ({"pattern": "a" * 4097}, "a pattern has 4097 characters"),
        ({"enum": list(range(10_001))}, "an enum has 10001 values"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(30_000)}}, "50000 values"),
    ],
)
def test_schemas_that_ask_for_too_much_are_refused_by_name(
    schema: dict[str, object], message: str
) -> None:
    small = ChatTool(name="small", description="", parameters={"type": "object"})
    large = ChatTool(name="large", description="", parameters=schema)
    base = ChatRequest(messages=(ChatMessage(role="user", content="hi"),))

    with pytest.raises(ApiError, match=message) as raised:
        check_complexity(dataclasses.replace(base, tools=(small, large)), ComplexityLimits())
    assert (raised.value.status, raised.value.param) == (400, "tools[1]")
    with pytest.raises(ApiError, match=message) as raised:
        check_complexity(dataclasses.replace(base, response_schema=schema), ComplexityLimits())
    assert raised.value.param == "response_format"


def test_counts_and_stop_strings_have_bounds() -> None:
    limits = ComplexityLimits(max_messages=2, max_stop_strings=1, max_stop_chars=3)
    hi = ChatMessage(role="user", content="hi")

    def check(messages: int = 1, stop: tuple[str, ...] = ()) -> None:
        sampling = SamplingParams(stop=stop)
        check_complexity(ChatRequest(messages=(hi,) * messages, sampling=sampling), limits)

    check(2, ("abc",))
    with pytest.raises(ApiError, match="messages has 3 entries"):
        check(3)
    with pytest.raises(ApiError, match="stop has 2 entries"):
        check(1, ("a", "b"))
    with pytest.raises(ApiError, match="a stop string has 4 characters"):
        check(1, ("abcd",))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_requests": 0}, "max_requests must be at least 1, got 0"),
        ({"batch_pressure": 1.5}, "batch_pressure must be between 0 and 1, got 1.5"),
    ],
)
def test_limits_that_cannot_work_are_refused(limits: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GateLimits(**cast("dict[str, int]", limits))


def test_batch_leaves_places_to_the_others(engine: Engine, clock: Clock) -> None:
    governed = gate(engine, clock, max_requests=10)
    inside = [governed.enter(asked(Priority.BATCH)) for _ in range(9)]
    for ticket in inside:
        ticket.opened()

    error = refused(governed, asked(Priority.BATCH))

    assert (error.status, error.code) == (429, "pressure")
    assert "90% of what it can do (requests are answered)" in error.message
    governed.enter(asked(Priority.INTERACTIVE)).leave()
    inside.pop().leave()
    governed.enter(asked(Priority.BATCH)).leave()
