"""What one step holds: the budget, guesses, requests that only fill the cache, deadlines."""

from __future__ import annotations

import pytest

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.sequence import CATCH_UP_TOKENS, Sequence
from agentkit_runtime.sched.step import Step
from agentkit_runtime.types import FinishReason, GenerateRequest, Priority
from tests.runtime.sched.simulation import NoText, next_token, prompt_of, simulation


def test_lanes_that_decode_wait_for_no_more_prompt_tokens_than_allowed() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=256, mixed_prefill_tokens=20))
    sim.add(prompt_of(0, 100), 30)
    sim.step()
    assert sim.n_computed == 100  # nobody waits yet
    long = sim.add(prompt_of(1, 200), 1)
    sim.run(3)
    assert long.computed == 60


@pytest.mark.parametrize("guess", [1, 2, 5])
def test_right_guesses_are_kept_and_wrong_ones_leave_no_trace(guess: int) -> None:
    plain, guessing = simulation(300), simulation(300, guess=guess)
    for sim in (plain, guessing):
        for i in range(3):
            sim.add(prompt_of(i, 20), 25)
        sim.drain()
    for one, two in zip(plain.requests, guessing.requests, strict=True):
        assert one.ids == two.ids
        assert two.sequence.accepted_tokens > 0
        assert two.stats is not None
        assert two.stats.accepted_tokens <= two.stats.drafted_tokens
    assert guessing.n_steps < plain.n_steps


def test_guesses_are_dropped_first_when_the_budget_is_short() -> None:
    sim = simulation(600, options=SchedulerOptions(step_tokens=32), guess=4)
    lane = sim.add(prompt_of(0, 20), 60)
    sim.run(2)
    assert any(chunk.draft for chunk in sim.chunks)
    long = sim.add(prompt_of(1, 200), 1)
    sim.run(3)
    assert long.computed == 3 * 31
    assert not any(chunk.draft for chunk in sim.chunks)
    sim.drain()
    assert lane.generated == [next_token(lane.ids[:i]) for i in range(20, 80)]


def test_guesses_are_dropped_first_when_slots_are_short() -> None:
    """Nothing is evicted for them, and nobody has to leave."""
    sim = simulation(100, options=SchedulerOptions(reserve_tokens=0), guess=4)
    sim.add(prompt_of(0, 30), 1)
    sim.drain()
    lane = sim.add(prompt_of(1, 60), 30)
    capacity = 0
    while not sim.idle:
        if not sim.cache.free_slots:
            assert lane.sequence.lease is not None
            capacity = max(lane.sequence.lease.capacity, lane.sequence.length)
        sim.step()
        if capacity and lane.sequence.lease is not None:
            assert lane.sequence.lease.capacity == capacity
    assert capacity
    assert len(lane.generated) == 30


def test_a_request_for_no_tokens_brings_its_whole_prompt_into_the_cache() -> None:
    sim = simulation(300, options=SchedulerOptions(step_tokens=16))
    prompt = prompt_of(0, 50)
    first = sim.add(prompt, 0)
    sim.drain()
    assert first.reason is FinishReason.LENGTH
    assert (first.computed, first.generated) == (50, [])
    assert sim.cache.peek(b"ns", first.sequence.key(50)) == 50
    assert sim.cache.n_slots - sim.cache.free_slots == 50
    # And again: nothing is left to do.
    again = sim.add(prompt, 0)
    sim.step()
    assert again.reason is FinishReason.LENGTH
    assert again.computed == 0
    assert again.stats is not None
    assert again.stats.cached_tokens == 50


def test_a_request_for_no_tokens_takes_the_slots_of_its_prompt_only() -> None:
    sim = simulation(300, options=SchedulerOptions(step_tokens=16, reserve_tokens=100))
    sim.add(prompt_of(0, 50), 0)
    sim.step()
    (sequence,) = sim.scheduler.running
    assert sequence.lease is not None
    assert sequence.lease.capacity == 50


def test_a_deadline_ends_a_request_wherever_it_is() -> None:
    sim = simulation(500, options=SchedulerOptions(max_lanes=1, step_tokens=16))
    running = sim.add(prompt_of(0, 20), 100, deadline_s=1.0)
    waiting = sim.add(prompt_of(1, 20), 5, deadline_s=0.5)
    patient = sim.add(prompt_of(2, 20), 5, deadline_s=50.0)
    sim.drain()
    assert running.reason is waiting.reason is FinishReason.DEADLINE
    assert running.error == "the deadline of 1.0 s passed while it ran"
    assert waiting.error == "the deadline of 0.5 s passed while it waited"
    assert patient.reason is FinishReason.LENGTH
    assert 5 <= len(running.generated) <= 10
    assert waiting.computed == 0
    assert sim.scheduler.stats().late == 2


def test_what_a_late_request_has_computed_is_kept() -> None:
    sim = simulation(500, options=SchedulerOptions(step_tokens=16))
    prompt = prompt_of(0, 100)
    sim.add(prompt, 5, deadline_s=0.35)
    sim.drain()
    again = sim.add(prompt, 1)
    sim.drain()
    assert again.computed == 100 - 48


def test_the_statistics_count_who_is_where() -> None:
    sim = simulation(1000, options=SchedulerOptions(max_lanes=2, step_tokens=16))
    trunk = prompt_of(0, 100)
    sim.add([*trunk, 1], 4)
    sim.add([*trunk, 2], 4)
    sim.add(prompt_of(1, 40), 4, priority=Priority.BATCH)
    sim.run(2)
    stats = sim.scheduler.stats()
    assert dict(stats.waiting) == {Priority.BATCH: 1, Priority.NORMAL: 1, Priority.INTERACTIVE: 0}
    assert (stats.running, stats.prefilling, stats.following, stats.loading) == (1, 1, 1, 0)
    sim.now_s += 3.0
    assert sim.scheduler.stats().oldest_wait_s == pytest.approx(3.0 + 0.2)
    sim.drain()
    assert sim.scheduler.stats().oldest_wait_s == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_tokens", 0),
        ("mixed_prefill_tokens", 0),
        ("max_lanes", 0),
        ("max_scan", 0),
        ("shared_min_tokens", 0),
        ("turns_per_old", 0),
        ("max_restores", 0),
        ("reserve_tokens", -1),
        ("cached_token_s", -0.1),
        ("cached_token_s", float("nan")),
        ("patience_s", float("inf")),
        ("max_overtakes", -1),
        ("max_preemptions", -1),
        ("returning_s", -1.0),
        ("deadline_lead_s", -1.0),
        ("tenant_weights", {"a": 0.0}),
        ("tenant_weights", {"a": float("nan")}),
    ],
)
def test_values_that_cannot_work_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name.removeprefix("tenant_").removesuffix("s")):
        SchedulerOptions(**{name: value})  # type: ignore[arg-type]


def test_what_resumes_with_much_to_compute_counts_as_a_prompt() -> None:
    """Else lanes that decode would wait for all of it, whatever `mixed_prefill_tokens` says."""
    sim = simulation(500)
    sequence = sim.add(prompt_of(0, 20), 100).sequence
    for token in range(60):
        sequence.append(token)
    assert sequence.prefilling
    sequence.computed = 20
    assert sequence.prefilling
    sequence.computed = 79 - CATCH_UP_TOKENS
    assert sequence.prefilling
    sequence.computed += 1
    assert not sequence.prefilling


def test_what_was_generated_is_there_for_the_next_turn() -> None:
    sim = simulation(500)
    first = sim.add(prompt_of(0, 20), 10)
    sim.drain()
    again = sim.add([*first.ids, 1, 2], 1)
    sim.drain()
    # The last token was never run.
    assert again.computed == 1 + 2


def test_guesses_of_all_lanes_together_keep_to_the_budget() -> None:
    sim = simulation(500, guess=3, options=SchedulerOptions(step_tokens=6))
    for i in range(3):
        sim.add(prompt_of(i, 2), 40)
    fullest = 0
    while not sim.idle:
        sim.step()  # which checks the budget
        fullest = max(fullest, sum(chunk.n_rows for chunk in sim.chunks))
    assert fullest == 6


def test_a_bound_for_prompts_does_not_bind_what_was_generated() -> None:
    request = GenerateRequest(request_id="r", prompt=(1, 2, 3), namespace=b"n", text=NoText())
    generating, prefilling = (
        Sequence.start(request, arrival=i, now_s=0.0, max_length=50) for i in range(2)
    )
    generating.computed = 3
    for token in range(5):
        generating.append(token)
    step = Step(10)
    step.limit_prompts(2)
    assert (step.take(prefilling), step.take(generating)) == (2, 5)
    assert (step.budget, step.prompt_budget) == (3, 0)
    assert step.take(prefilling) == 0
