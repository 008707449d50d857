"""Who goes first, and that nobody waits for ever."""

from __future__ import annotations

import pytest

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.sched.simulation import Request, Simulation, prompt_of, simulation


def one_lane(n_slots: int = 2000, **options: object) -> Simulation:
    return simulation(n_slots, options=SchedulerOptions(max_lanes=1, **options))  # type: ignore[arg-type]


def starts(*requests: Request) -> list[int]:
    """Indices in order of admission."""
    assert all(r.started_step is not None for r in requests)
    return sorted(range(len(requests)), key=lambda i: requests[i].started_step or 0)


def test_equal_requests_start_in_order_of_arrival() -> None:
    sim = one_lane()
    requests = [sim.add(prompt_of(i, 20)) for i in range(6)]
    sim.drain()
    assert starts(*requests) == [0, 1, 2, 3, 4, 5]


def test_a_higher_class_starts_first() -> None:
    sim = one_lane()
    requests = [sim.add(prompt_of(i, 20), priority=p) for i, p in enumerate(Priority)]
    sim.drain()
    assert starts(*requests) == [2, 1, 0]


def test_of_one_tenant_what_is_cached_starts_before_what_is_not() -> None:
    sim = one_lane()
    known = prompt_of(0, 400)
    sim.add(known)
    sim.drain()
    requests = [
        sim.add(prompt_of(1, 400)),
        sim.add([*known[:200], *prompt_of(2, 200)]),
        sim.add([*known, 1, 2]),
    ]
    sim.drain()
    assert starts(*requests) == [2, 1, 0]


def test_the_order_follows_what_became_cached_while_it_waited() -> None:
    sim = one_lane()
    shared = prompt_of(0, 300)
    first = sim.add(prompt_of(9, 10), 30)
    sim.step()
    cold, later = sim.add(prompt_of(1, 300)), sim.add([*shared, 7])
    # Another engine's work, say: the prefix comes into the tree while both wait.
    lease = sim.cache.acquire(b"ns", later.sequence.key(300))
    sim.cache.grow(lease, 300)
    sim.fill(lease, shared)
    sim.cache.commit(lease, later.sequence.key(300))
    sim.cache.release(lease)
    sim.drain()
    assert starts(first, cold, later) == [0, 2, 1]


def test_without_a_worth_of_cached_tokens_the_order_is_that_of_arrival() -> None:
    sim = one_lane(cached_token_s=0.0)
    known = prompt_of(0, 400)
    sim.add(known)
    sim.drain()
    requests = [sim.add(prompt_of(1, 400)), sim.add([*known, 1, 2])]
    sim.drain()
    assert starts(*requests) == [0, 1]


@pytest.mark.parametrize("priority", Priority)
def test_a_cold_request_among_endless_hot_ones_starts_within_a_bound(priority: Priority) -> None:
    """R31: also when it is of the lowest class and the hot ones are of the highest."""
    sim = one_lane(patience_s=2.0, turns_per_old=5)
    known = prompt_of(0, 500)
    sim.add(known)
    sim.drain()
    cold = None
    for i in range(60):
        for j in range(2):  # twice what the engine can do
            sim.add([*known, i, j], 1, priority=Priority.INTERACTIVE)
        if i == 5:
            cold = sim.add(prompt_of(1, 30), 1, priority=priority)
        sim.step()
    assert cold is not None
    assert cold.started_step is not None
    # 2 s are 20 steps of one request each; then at most 5 turns of others, of a step each.
    assert cold.started_step - cold.submitted_step <= 20 + 5 + 1


def test_old_requests_do_not_push_aside_what_is_urgent() -> None:
    """A flood of a lower class that has become old gets its share of turns, and no more."""
    sim = one_lane(patience_s=0.0, turns_per_old=4)
    for i in range(100):
        sim.add(prompt_of(i, 10), 1, priority=Priority.BATCH)
    urgent = [sim.add(prompt_of(1000 + i, 10), 1, priority=Priority.INTERACTIVE) for i in range(20)]
    sim.run(26)
    assert all(r.reason is FinishReason.LENGTH for r in urgent)


def test_a_long_prompt_of_a_low_class_is_not_stuck_half_way() -> None:
    sim = simulation(4000, options=SchedulerOptions(step_tokens=32, patience_s=1.0))
    batch = sim.add(prompt_of(0, 300), 1, priority=Priority.BATCH)
    sim.step()
    for i in range(400):
        sim.add(prompt_of(100 + i, 32), 1, priority=Priority.INTERACTIVE)
        sim.step()
        if batch.reason is not None:
            break
    assert batch.reason is FinishReason.LENGTH
    # Ten chunks, one in nine turns.
    assert sim.n_steps <= 11 + 10 * 9


def test_an_urgent_prompt_goes_before_the_rest_of_a_long_one() -> None:
    sim = simulation(4000, options=SchedulerOptions(step_tokens=32))
    sim.add(prompt_of(0, 1000), 1, priority=Priority.BATCH)
    sim.run(2)
    urgent = sim.add(prompt_of(1, 60), 1, priority=Priority.INTERACTIVE)
    sim.run(2)
    assert urgent.reason is FinishReason.LENGTH


def test_a_request_that_finds_no_room_is_overtaken_so_often_and_no_more() -> None:
    sim = simulation(220, options=SchedulerOptions(max_lanes=8, max_overtakes=3, reserve_tokens=0))
    running = sim.add(prompt_of(0, 100), 40)
    sim.step()
    big = sim.add(prompt_of(1, 150), 2)
    small = [sim.add(prompt_of(2 + i, 10), 2) for i in range(9)]
    sim.drain()
    before = [s for s in small if (s.started_step or 0) < (big.started_step or 0)]
    assert len(before) == 3 == sim.scheduler.stats().overtakes
    assert running.reason is big.reason is FinishReason.LENGTH


def test_a_near_deadline_goes_first_when_asked_for() -> None:
    def order(lead_s: float | None) -> list[int]:
        sim = one_lane(deadline_lead_s=lead_s)
        sim.add(prompt_of(9, 10), 5)
        sim.step()
        requests = [
            sim.add(prompt_of(0, 10), 1),
            sim.add(prompt_of(1, 10), 1, deadline_s=6.0),
            sim.add(prompt_of(2, 10), 1, deadline_s=4.0),
        ]
        sim.drain()
        return starts(*requests)

    assert order(None) == [0, 1, 2]
    assert order(10.0) == [2, 1, 0]


def test_nobody_is_old_before_the_patience_is_over() -> None:
    sim = one_lane(patience_s=3.0, turns_per_old=1)
    batch = sim.add(prompt_of(0, 10), 1, priority=Priority.BATCH)
    for i in range(40):
        for j in range(2):
            sim.add(prompt_of(100 + 2 * i + j, 10), 1, priority=Priority.INTERACTIVE)
        sim.step()
    assert batch.started_step is not None
    assert 29 <= batch.started_step <= 33
