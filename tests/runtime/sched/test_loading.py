"""Prefixes that come back from a slower tier."""

from __future__ import annotations

import pytest

from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.sched.simulation import Request, Simulation, prompt_of, simulation


def evicted(prompts: list[list[int]], **options: object) -> Simulation:
    """A simulation whose tier alone holds these prompts."""
    sim = simulation(600, options=SchedulerOptions(**options), tier=True)  # type: ignore[arg-type]
    for prompt in prompts:
        sim.add(prompt, 1)
    sim.drain()
    sim.cache.evict(600)
    assert sim.cache.free_slots == 600
    sim.n_computed = 0
    return sim


def test_a_prefix_is_loaded_instead_of_computed() -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt])
    request = sim.add(prompt, 2)
    sim.run(3)
    assert sim.scheduler.stats().loading == 1
    assert (request.started_step, request.computed) == (None, 0)
    assert sim.scheduler.idle_wait_s > 0
    sim.tier.arrive()
    sim.drain()
    # Six whole blocks of sixteen.
    assert sim.n_computed == 100 - 96 + 1
    assert request.stats is not None
    assert (request.stats.cached_tokens, request.stats.restored_tokens) == (96, 96)
    assert all(fetch.closed for fetch in sim.tier.fetches)


def test_others_go_on_while_one_loads() -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt])
    loading = sim.add(prompt, 2)
    sim.step()
    others = [sim.add(prompt_of(1 + i, 50), 3) for i in range(3)]
    sim.run(4)
    assert all(r.reason is FinishReason.LENGTH for r in others)
    assert loading.reason is None
    sim.tier.arrive()
    sim.drain()


def test_requests_with_the_same_prefix_load_it_once() -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt])
    requests = [sim.add([*prompt, 1001 + i], 2) for i in range(4)]
    sim.run(3)
    assert len(sim.tier.fetches) == 1
    assert sim.scheduler.stats().following == 3
    sim.tier.arrive()
    sim.drain()
    assert len(sim.tier.fetches) == 1
    # The four tokens behind the last whole block are not worth a wait.
    assert sim.n_computed == 4 * (4 + 1 + 1)
    assert {r.reason for r in requests} == {FinishReason.LENGTH}


@pytest.mark.parametrize("cold", [0, 100])
def test_nobody_waits_for_a_load_that_brings_less_than_is_worth_it(cold: int) -> None:
    """Also where more is shared behind what it brings."""
    prompt = prompt_of(0, 112)
    sim = evicted([prompt], shared_min_tokens=32)
    sim.add(prompt[:97], 1)
    sim.step()
    sim.tier.arrive()
    sim.drain()
    assert sim.cache.peek(b"ns", pack(prompt)) == 97
    for i in range(2):
        sim.add([*prompt, *prompt_of(1, cold), 1001 + i], 1)
    sim.step()
    assert sim.scheduler.stats().following == 0
    assert sim.scheduler.stats().loading == 2
    sim.tier.arrive()
    sim.drain()


def abort(sim: Simulation, request: Request) -> None:
    request.sequence.aborted = True


def let_time_pass(sim: Simulation, request: Request) -> None:
    sim.now_s += 100.0


@pytest.mark.parametrize("leave", [abort, let_time_pass])
def test_leaving_while_it_loads_gives_everything_back(leave: object) -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt])
    loading = sim.add(prompt, 2, deadline_s=50.0)
    follower = sim.add([*prompt, 1001], 2)
    sim.run(2)
    leave(sim, loading)  # type: ignore[operator]
    sim.step()
    assert loading.reason in (FinishReason.ABORT, FinishReason.DEADLINE)
    assert loading.sequence not in sim.scheduler._loading.sequences
    assert sim.tier.fetches[0].closed
    sim.run(2)
    sim.tier.arrive()
    sim.drain()
    assert follower.reason is FinishReason.LENGTH
    assert len(sim.tier.fetches) == 2


def test_a_deadline_ends_the_sleep_of_a_core_that_only_loads() -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt])
    sim.add(prompt, 2, deadline_s=0.1005)
    sim.step()
    assert sim.scheduler.idle_wait_s == pytest.approx(0.0005)


def test_what_a_broken_tier_does_not_give_is_computed() -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt])
    sim.tier.broken = True
    request = sim.add(prompt, 1)
    sim.step()
    sim.tier.arrive()
    sim.drain()
    assert request.computed == 100
    assert request.stats is not None
    assert request.stats.restored_tokens == 0


def test_so_many_load_at_a_time() -> None:
    prompts = [prompt_of(i, 40) for i in range(5)]
    sim = evicted(prompts, max_restores=2)
    requests = [sim.add(prompt, 1) for prompt in prompts]
    sim.run(3)
    assert sim.scheduler.stats().loading == len(sim.tier.fetches) == 2
    while not sim.idle:
        sim.tier.arrive()
        sim.step()
    assert len(sim.tier.fetches) == 5
    assert sum(r.computed for r in requests) == 5 * 8


def test_nothing_is_loaded_for_which_there_is_no_room() -> None:
    """R32: a request that waits for a load holds no slots that another one needs."""
    prompt = prompt_of(0, 300)
    sim = evicted([prompt], reserve_tokens=0)
    running = [sim.add(prompt_of(1 + i, 200), 30) for i in range(2)]
    sim.step()
    late = sim.add(prompt, 1)
    sim.run(5)
    assert sim.tier.fetches == []
    while not sim.idle:
        sim.tier.arrive()
        sim.step()
    assert late.computed == 300 - 288
    assert {r.reason for r in running} == {FinishReason.LENGTH}


def test_a_sequence_that_had_to_leave_comes_back_from_the_tier() -> None:
    sim = simulation(160, options=SchedulerOptions(reserve_tokens=0), tier=True)
    for i in range(4):
        sim.add(prompt_of(i, 30), 60)
    while not sim.idle:
        sim.tier.arrive()
        sim.step()
    assert sim.scheduler.stats().preemptions > 0
    assert sim.cache.counters.restored > 0
    plain = simulation(160, options=SchedulerOptions(reserve_tokens=0))
    for i in range(4):
        plain.add(prompt_of(i, 30), 60)
    plain.drain()
    assert [r.ids for r in sim.requests] == [r.ids for r in plain.requests]


def test_nobody_has_to_leave_for_one_that_loads() -> None:
    prompt = prompt_of(0, 100)
    sim = evicted([prompt], max_lanes=1)
    urgent = sim.add(prompt, 1, priority=Priority.INTERACTIVE)
    sim.step()
    batch = sim.add(prompt_of(1, 50), 20, priority=Priority.BATCH)
    sim.run(5)
    assert batch.started_step is not None
    assert sim.scheduler.stats().preemptions == 0
    sim.tier.arrive()
    sim.run(2)
    assert urgent.reason is FinishReason.LENGTH
    assert sim.scheduler.stats().preemptions == 1
    sim.drain()


def test_slots_that_a_load_holds_back_end_no_other_request() -> None:
    """Regression: a sequence that ran alone ended, as if nobody would ever give them back."""
    sim = simulation(100, options=SchedulerOptions(reserve_tokens=0), tier=True)
    known = prompt_of(0, 64)
    sim.add(known, 1)
    sim.drain()
    sim.cache.evict(32)
    alone = sim.add(prompt_of(1, 40), 55)
    sim.step()
    loading = sim.add(known, 1)
    sim.run(40)
    assert sim.scheduler.stats().loading == 1
    assert sim.scheduler.stats().preemptions == 1
    assert alone.reason is None
    sim.tier.arrive()
    sim.drain()
    assert len(alone.generated) == 55
    assert loading.reason is FinishReason.LENGTH
