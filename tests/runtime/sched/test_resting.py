"""The batch class stays out of the way of those that somebody waits for."""

from __future__ import annotations

import pytest

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.resting import LEAST_TOKENS, Resting
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.sched.simulation import Request, Simulation, prompt_of, simulation


def classes(sim: Simulation) -> set[Priority]:
    """Who had a part in the last step."""
    return {chunk.sequence.priority for chunk in sim.chunks}


def busy(**options: float | int | None) -> tuple[Simulation, Request]:
    """A batch request that generates, and 300 tokens of another one's prompt to compute."""
    sim = simulation(4000, options=SchedulerOptions(step_tokens=32, **options))  # type: ignore[arg-type]
    generating = sim.add(prompt_of(0, 20), 500, priority=Priority.BATCH)
    sim.step()
    sim.add(prompt_of(1, 300), 1, priority=Priority.BATCH)
    sim.step()
    return sim, generating


def test_batch_rests_while_a_person_waits_for_the_first_token() -> None:
    sim, _ = busy()
    urgent = sim.add(prompt_of(2, 90), 5, priority=Priority.INTERACTIVE)
    for _ in range(3):
        sim.step()
        assert classes(sim) == {Priority.INTERACTIVE}
    assert urgent.sequence.computed >= 90

    sim.step()
    assert classes(sim) == {Priority.INTERACTIVE, Priority.BATCH}


def test_a_rest_ends_after_its_time_and_begins_again_behind_one_step() -> None:
    sim, _ = busy(batch_rests_s=0.5)  # five steps
    sim.add(prompt_of(2, 1000), 1, priority=Priority.INTERACTIVE)
    rested = []
    for _ in range(14):
        sim.step()
        rested.append(classes(sim) == {Priority.INTERACTIVE})

    assert rested == [True] * 5 + [False] + [True] * 5 + [False] + [True] * 2


def test_nobody_rests_for_a_request_that_cannot_go_on() -> None:
    sim = simulation(400, options=SchedulerOptions(step_tokens=32, reserve_tokens=0))
    held = [sim.add(prompt_of(n, 150), 30, priority=Priority.NORMAL) for n in range(2)]
    batch = sim.add(prompt_of(5, 20), 30, priority=Priority.BATCH)
    sim.run(15)
    assert batch.sequence.lease is not None
    n_before = batch.sequence.length
    urgent = sim.add(prompt_of(9, 300), 1, priority=Priority.INTERACTIVE)
    sim.drain()

    assert n_before < 50
    assert {r.reason for r in (*held, batch, urgent)} == {FinishReason.LENGTH}


def test_without_rests_batch_goes_on() -> None:
    sim, generating = busy(batch_rests_s=0)
    before = generating.sequence.length
    sim.add(prompt_of(2, 90), 1, priority=Priority.INTERACTIVE)
    sim.run(3)

    assert generating.sequence.length == before + 3


@pytest.mark.parametrize(
    ("batch_step_s", "token_s", "n_decoding", "n_tokens"),
    [
        (0.1, 0.001, 0, 100),
        (0.1, 0.001, 40, 60),
        (0.1, 0.001, 99, LEAST_TOKENS),
        (0.1, 1.0, 0, LEAST_TOKENS),
        (0.1, 1e-12, 0, 512),
        (None, 1.0, 3, 512),
    ],
)
def test_batch_prompts_are_computed_in_pieces_that_take_their_time(
    batch_step_s: float | None, token_s: float, n_decoding: int, n_tokens: int
) -> None:
    resting = Resting(SchedulerOptions(batch_step_s=batch_step_s))
    resting.note(50, 50 * token_s)

    assert resting.batch_tokens(n_decoding) == n_tokens


def test_how_long_a_token_takes_follows_the_steps() -> None:
    resting = Resting(SchedulerOptions(batch_step_s=0.1))
    assert resting.batch_tokens(0) == 64
    resting.note(100, 0.1)
    assert resting.batch_tokens(0) == 100
    for _ in range(60):
        resting.note(100, 0.2)
    assert resting.batch_tokens(0) == 50


def test_only_the_batch_class_is_computed_in_pieces() -> None:
    for priority, n_first in ((Priority.BATCH, 64), (Priority.NORMAL, 300)):
        sim = simulation(4000, options=SchedulerOptions(step_tokens=512))
        request = sim.add(prompt_of(1, 300), 1, priority=priority)
        sim.step()
        assert request.sequence.computed == n_first
