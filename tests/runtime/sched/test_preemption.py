"""Who leaves when slots run out, how often, and for whom."""

from __future__ import annotations

import pytest

from agentkit_runtime.sched.admission import NO_ROOM_TRIES
from agentkit_runtime.sched.lanes import Lanes
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.sched.simulation import Request, next_token, prompt_of, simulation


def assert_right(request: Request) -> None:
    ids = request.ids
    assert request.reason is FinishReason.LENGTH
    for i in range(request.sequence.n_prompt, len(ids)):
        assert ids[i] == next_token(ids[:i])


def test_a_sequence_that_had_to_leave_goes_on_where_it_was() -> None:
    sim = simulation(160, options=SchedulerOptions(reserve_tokens=0))
    requests = [sim.add(prompt_of(i, 30), 60) for i in range(4)]
    sim.drain()
    assert sim.scheduler.stats().preemptions > 0
    for request in requests:
        assert_right(request)
        assert len(request.generated) == 60


def test_the_one_that_costs_least_to_bring_back_leaves() -> None:
    """Its prompt stays in the tree, because another sequence reads it, too."""
    sim = simulation(330, options=SchedulerOptions(reserve_tokens=0))
    trunk = prompt_of(0, 100)
    alone = sim.add(prompt_of(1, 120), 90)
    sim.add([*trunk, 1001], 2)
    sim.step()
    reader = sim.add([*trunk, 1002], 90)
    other = sim.add([*trunk, 1003], 90)
    sim.drain()
    assert alone.sequence.preemptions == 0
    assert reader.sequence.preemptions + other.sequence.preemptions > 0
    for request in (alone, reader, other):
        assert_right(request)


@pytest.mark.parametrize("order", [(2, 2, 0, 0), (0, 0, 2, 2)])
def test_nobody_leaves_for_a_lower_class(order: tuple[int, ...]) -> None:
    sim = simulation(160, options=SchedulerOptions(reserve_tokens=0))
    requests = [
        sim.add(prompt_of(i, 30), 60 - 10 * priority, priority=Priority(priority))
        for i, priority in enumerate(order)
    ]
    sim.drain()
    left = {r.sequence.priority for r in requests if r.sequence.preemptions}
    assert left == {Priority.BATCH}
    for request in requests:
        assert_right(request)


def test_an_urgent_request_takes_the_lane_of_one_that_nobody_waits_for() -> None:
    sim = simulation(1000, options=SchedulerOptions(max_lanes=2))
    batch = [sim.add(prompt_of(i, 30), 80, priority=Priority.BATCH) for i in range(2)]
    sim.run(5)
    urgent = sim.add(prompt_of(5, 30), 3, priority=Priority.INTERACTIVE)
    sim.run(3)
    assert urgent.reason is FinishReason.LENGTH
    sim.drain()
    assert sim.scheduler.stats().preemptions == 1
    for request in batch:
        assert_right(request)


def test_an_urgent_request_takes_the_slots_it_needs_and_no_more() -> None:
    sim = simulation(400, options=SchedulerOptions(reserve_tokens=0))
    batch = [sim.add(prompt_of(i, 90), 30, priority=Priority.BATCH) for i in range(3)]
    sim.run(3)
    urgent = sim.add(prompt_of(5, 120), 3, priority=Priority.INTERACTIVE)
    sim.step()
    assert urgent.started_step == sim.n_steps
    assert sim.scheduler.stats().preemptions == 1
    sim.drain()
    for request in (*batch, urgent):
        assert_right(request)


def test_without_the_option_nobody_leaves_for_a_higher_class() -> None:
    sim = simulation(1000, options=SchedulerOptions(max_lanes=1, preempt_for_priority=False))
    batch = sim.add(prompt_of(0, 30), 40, priority=Priority.BATCH)
    sim.run(5)
    urgent = sim.add(prompt_of(5, 30), 3, priority=Priority.INTERACTIVE)
    sim.drain()
    assert (urgent.started_step or 0) > 40
    assert batch.sequence.preemptions == 0


def test_endless_urgent_requests_let_a_batch_job_finish() -> None:
    """It may have to leave `max_preemptions` times, and then it stays."""
    options = SchedulerOptions(max_lanes=1, max_preemptions=2, patience_s=1.0, turns_per_old=3)
    sim = simulation(1000, options=options)
    batch = sim.add(prompt_of(0, 30), 30, priority=Priority.BATCH)
    for i in range(400):
        sim.add(prompt_of(1 + i, 20), 2, priority=Priority.INTERACTIVE)
        sim.step()
        if batch.reason is not None:
            break
    assert_right(batch)
    assert batch.sequence.preemptions <= 2


def test_a_request_starts_only_when_its_whole_prompt_fits() -> None:
    """R32: a prefill never holds slots that it cannot use, so no two can block each other."""
    sim = simulation(200, options=SchedulerOptions(step_tokens=16, reserve_tokens=0))
    requests = [sim.add(prompt_of(i, 120), 3) for i in range(3)]
    while not sim.idle:
        sim.step()
        assert sum(s.prefilling for s in sim.scheduler.running) <= 1
    assert sim.scheduler.stats().preemptions == 0
    for request in requests:
        assert_right(request)


def test_preemptions_are_few_even_when_all_want_the_whole_pool() -> None:
    sim = simulation(300, options=SchedulerOptions(reserve_tokens=0, max_lanes=8))
    requests = [sim.add(prompt_of(i, 20), 150) for i in range(8)]
    sim.drain()
    for request in requests:
        assert_right(request)
        assert request.sequence.preemptions <= SchedulerOptions().max_preemptions
    needed = sum(len(r.ids) - 1 for r in requests)
    assert sim.n_computed < 2 * needed


def test_a_sequence_that_has_the_pool_for_itself_and_fills_it_ends() -> None:
    sim = simulation(64)
    request = sim.add(prompt_of(0, 60), None)
    sim.drain()
    assert request.reason is FinishReason.LENGTH
    assert len(request.generated) >= 3


def test_who_made_way_does_not_come_straight_back() -> None:
    """Not even when it is the turn of the oldest."""
    sim = simulation(1000, options=SchedulerOptions(max_lanes=2, patience_s=0.0, turns_per_old=1))
    batch = [sim.add(prompt_of(i, 30), 80, priority=Priority.BATCH) for i in range(2)]
    sim.run(5)
    urgent = [sim.add(prompt_of(5 + i, 30), 9, priority=Priority.INTERACTIVE) for i in range(2)]
    sim.run(2)
    assert [r.started_step for r in urgent] == [6, 7]
    sim.drain()
    for request in batch:
        assert_right(request)


def test_nobody_leaves_while_the_urgent_request_needs_what_it_computes() -> None:
    sim = simulation(1000, options=SchedulerOptions(max_lanes=1, step_tokens=16))
    trunk = prompt_of(0, 64)
    batch = sim.add([*trunk, *prompt_of(1, 64)], 50, priority=Priority.BATCH)
    sim.step()
    urgent = sim.add([*trunk, 1001], 1, priority=Priority.INTERACTIVE)
    sim.run(3)
    assert (batch.computed, sim.scheduler.stats().preemptions) == (64, 0)
    sim.step()
    assert sim.scheduler.stats().preemptions == 1
    assert (urgent.reason, urgent.computed) == (FinishReason.LENGTH, 1)
    sim.drain()
    assert_right(batch)


def test_who_had_to_leave_is_first_in_its_line() -> None:
    """However urgent another request is that would fit in."""
    options = SchedulerOptions(
        max_lanes=2, reserve_tokens=0, max_overtakes=0, deadline_lead_s=10_000.0, patience_s=1000.0
    )
    sim = simulation(160, options=options)
    requests = [sim.add(prompt_of(i, 30), 80) for i in range(2)]
    sim.step()
    urgent = sim.add(prompt_of(9, 5), 1, deadline_s=5_000.0)
    assert urgent.sequence.rank < min(r.sequence.rank for r in requests)
    while not sim.scheduler.n_preemptions:
        sim.step()
    (gone,) = (r for r in requests if r.sequence.preemptions)
    while gone.sequence in sim.scheduler.waiting:
        assert urgent.started_step is None
        sim.step()
    sim.drain()
    for request in requests:
        assert_right(request)


def test_few_that_find_no_room_are_tried_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = simulation(200, options=SchedulerOptions(reserve_tokens=0, max_overtakes=100))
    sim.add(prompt_of(0, 150), 20)
    sim.step()
    for i in range(20):
        sim.add(prompt_of(1 + i, 60), 1)
    tried = []
    admit = Lanes.admit
    monkeypatch.setattr(Lanes, "admit", lambda self, s: tried.append(s) or admit(self, s))
    sim.step()
    assert len(tried) == NO_ROOM_TRIES


def test_slots_taken_ahead_are_given_back_before_anybody_leaves() -> None:
    sim = simulation(110, options=SchedulerOptions(reserve_tokens=40))
    # Together they never need more than the pool, but the first has taken what the second needs.
    requests = [sim.add(prompt_of(i, 25), n) for i, n in enumerate((80, 30))]
    sim.drain()
    assert sim.scheduler.stats().preemptions == 0
    for request in requests:
        assert_right(request)


def test_nobody_leaves_in_vain() -> None:
    """Even without all of the batch jobs the urgent request would find no room."""
    sim = simulation(300, options=SchedulerOptions(reserve_tokens=0))
    first = sim.add(prompt_of(0, 150), 30, priority=Priority.INTERACTIVE)
    batch = sim.add(prompt_of(1, 60), 20, priority=Priority.BATCH)
    sim.run(3)
    urgent = sim.add(prompt_of(2, 200), 1, priority=Priority.INTERACTIVE)
    sim.drain()
    assert sim.scheduler.stats().preemptions == 0
    for request in (first, batch, urgent):
        assert_right(request)
