from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from agentkit_runtime.api.admin import Sampler
from agentkit_runtime.attention.base import AttentionStats
from agentkit_runtime.sched.stats import SchedulerStats
from agentkit_runtime.stats import CoreStats
from tests.runtime.service.scripted import wait_until

STATS = CoreStats(
    running=1,
    waiting=2,
    total_slots=100,
    free_slots=50,
    cached_slots=30,
    steps=0,
    computed_tokens=0,
    prompt_tokens=10,
    hit_tokens=4,
    preemptions=0,
    scheduler=SchedulerStats(
        waiting={},
        running=1,
        prefilling=0,
        following=0,
        loading=0,
        oldest_wait_s=0.0,
        preemptions=0,
        overtakes=0,
        late=0,
    ),
    attention=AttentionStats(),
)


class Engine:
    def __init__(self) -> None:
        self.stats = STATS
        self.now_s = 100.0

    def advance(self, seconds: float, n_prompt: int, n_hit: int) -> None:
        self.now_s += seconds
        self.stats = replace(
            self.stats,
            prompt_tokens=self.stats.prompt_tokens + n_prompt,
            hit_tokens=self.stats.hit_tokens + n_hit,
        )


@pytest.fixture
def engine() -> Engine:
    return Engine()


def sampler_of(engine: Engine, **options: float | int) -> Sampler:
    return Sampler(lambda: engine.stats, clock=lambda: engine.now_s, **options)  # type: ignore[arg-type]


def test_a_sample_has_what_is_now_and_what_happened_since_the_one_before(engine: Engine) -> None:
    sampler = sampler_of(engine)
    engine.advance(1.5, 20, 15)
    first = sampler.sample()
    assert (first["time_s"], first["interval_s"]) == (101.5, 1.5)
    assert (first["prompt_tokens"], first["hit_tokens"]) == (20, 15)
    assert (first["running"], first["waiting"], first["held"]) == (1, 2, 20)
    engine.advance(0.5, 0, 0)
    assert sampler.sample()["prompt_tokens"] == 0


def test_the_ring_is_bounded_and_read_from_a_time_on(engine: Engine) -> None:
    sampler = sampler_of(engine, keep=3)
    for _ in range(5):
        engine.advance(1.0, 1, 0)
        sampler.sample()
    assert [sample["time_s"] for sample in sampler.since(0.0, 10)] == [103.0, 104.0, 105.0]
    assert [sample["time_s"] for sample in sampler.since(103.0, 10)] == [104.0, 105.0]
    assert [sample["time_s"] for sample in sampler.since(0.0, 1)] == [105.0]
    assert sampler.since(0.0, 0) == sampler.since(105.0, 10) == []


def test_it_samples_by_itself_until_it_is_closed(engine: Engine) -> None:
    n_threads = threading.active_count()
    with sampler_of(engine, period_s=0.01) as sampler:
        wait_until(lambda: len(sampler.since(0.0, 10)) >= 2)
    assert threading.active_count() == n_threads


@pytest.mark.parametrize("options", [{"period_s": 0}, {"keep": 0}])
def test_what_cannot_work_is_refused(engine: Engine, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        sampler_of(engine, **options)
