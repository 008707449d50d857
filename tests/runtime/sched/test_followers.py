"""Shared work is computed once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.sched.simulation import Simulation, prompt_of, simulation


def least(prompts: list[list[int]], *, n_generated: int) -> int:
    """Tokens that must run: each prefix once, a prompt's last token, all generated but the last."""
    prefixes = {tuple(p[:end]) for p in prompts for end in range(1, len(p) + 1)}
    whole = [tuple(p) for p in prompts]
    again = len(whole) - len(set(whole)) + sum(is_inside(p, set(whole)) for p in set(whole))
    return len(prefixes) + again + len(prompts) * (n_generated - 1)


def is_inside(prompt: tuple[int, ...], others: set[tuple[int, ...]]) -> bool:
    return any(len(o) > len(prompt) and o[: len(prompt)] == prompt for o in others)


@pytest.mark.parametrize("step_tokens", [1, 7, 16, 64, 1000])
def test_a_cold_prefix_is_computed_once_whatever_the_chunks(step_tokens: int) -> None:
    options = SchedulerOptions(step_tokens=step_tokens)
    sim = simulation(2000, options=options)
    trunk = prompt_of(0, 100)
    prompts = [[*trunk, 1000 + i, i] for i in range(6)]
    for prompt in prompts:
        sim.add(prompt, 3)
    sim.drain()
    assert sim.n_computed == least(prompts, n_generated=3)


def test_a_chain_of_growing_prefixes_is_computed_once() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=16))
    longest = prompt_of(0, 200)
    prompts = [[*longest[:n], 1000 + n] for n in (50, 100, 150, 200)]
    for prompt in prompts:
        sim.add(prompt, 2)
    sim.drain()
    assert sim.n_computed == least(prompts, n_generated=2)


def test_two_followers_that_share_more_than_their_leader_has() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=16))
    trunk, branch = prompt_of(0, 60), prompt_of(1, 60)
    prompts = [[*trunk, *prompt_of(2, 50)], [*trunk, *branch, 1001], [*trunk, *branch, 1002]]
    for prompt in prompts:
        sim.add(prompt, 2)
    sim.drain()
    assert sim.n_computed == least(prompts, n_generated=2)


@settings(max_examples=60)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=1, max_size=10),
    step_tokens=st.sampled_from([1, 5, 16, 200]),
    gaps=st.lists(st.integers(0, 3), min_size=10, max_size=10),
    tenants=st.integers(1, 3),
)
def test_computed_tokens_are_the_union_of_prefixes(
    cuts: list[tuple[int, int]], step_tokens: int, gaps: list[int], tenants: int
) -> None:
    """Whoever comes when: nothing is computed twice as long as nothing is evicted."""
    options = SchedulerOptions(step_tokens=step_tokens, shared_min_tokens=1)
    sim = simulation(4000, options=options)
    trunk = prompt_of(0, 40)
    branches = [[*trunk[: 10 * b], *prompt_of(b, 40 - 10 * b)] for b in range(3)]
    prompts = [[*branches[branch][:n], 1000 + i] for i, (branch, n) in enumerate(cuts)]
    for i, (prompt, gap) in enumerate(zip(prompts, gaps, strict=False)):
        sim.add(prompt, 2, tenant=f"t{i % tenants}", priority=Priority(i % 3))
        sim.run(gap if not sim.idle else 0)
    sim.drain()
    assert sim.n_computed == least(prompts, n_generated=2)


def aborted_leader(sim: Simulation) -> None:
    sim.requests[0].sequence.aborted = True


def late_leader(sim: Simulation) -> None:
    sim.now_s += 100.0


@pytest.mark.parametrize("leave", [aborted_leader, late_leader])
def test_a_follower_takes_over_when_its_leader_leaves(leave: object) -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=16))
    trunk = prompt_of(0, 100)
    leader = sim.add([*trunk, 1001], 2, deadline_s=50.0)
    followers = [sim.add([*trunk, 1002 + i], 2) for i in range(3)]
    sim.run(3)
    waiting = sim.scheduler.stats()
    assert (waiting.following, waiting.waiting_tokens) == (3, 3)
    leave(sim)  # type: ignore[operator]
    sim.step()
    assert sum(f.sequence.leader is leader.sequence for f in followers) == 0
    sim.drain()
    assert leader.reason in (FinishReason.ABORT, FinishReason.DEADLINE)
    assert {f.reason for f in followers} == {FinishReason.LENGTH}
    # What the leader had committed is not computed again.
    assert sim.n_computed == 101 + 2 + 3


def test_a_leader_of_a_low_class_is_served_in_its_followers_place() -> None:
    """Otherwise an urgent request would wait for others of its class, and for a batch job."""
    sim = simulation(4000, options=SchedulerOptions(step_tokens=32))
    trunk = prompt_of(0, 80)
    batch = sim.add([*trunk, *prompt_of(1, 600)], 1, priority=Priority.BATCH)
    sim.step()
    urgent = sim.add([*trunk, 1001], 1, priority=Priority.INTERACTIVE)
    for i in range(40):
        sim.add(prompt_of(100 + i, 32), 1, priority=Priority.NORMAL)
    sim.run(3)
    assert urgent.reason is FinishReason.LENGTH
    # The leader got no more than what both need.
    assert batch.computed == 80


def test_few_tokens_are_computed_twice_rather_than_waited_for() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=200, shared_min_tokens=16))
    known = prompt_of(0, 100)
    sim.add(known, 1)
    sim.drain()
    # All that is cold in common is a header of five tokens.
    header = prompt_of(1, 5)
    warm = [sim.add([*known, *header, 1000 + i], 1) for i in range(4)]
    sim.step()
    assert all(r.reason is FinishReason.LENGTH for r in warm)


def test_a_follower_starts_as_soon_as_all_but_its_last_token_is_there() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=49))
    prompt = prompt_of(0, 200)
    sim.add(prompt, 1)
    sim.step()  # 49 tokens of it are there
    short = sim.add(prompt[:50], 1, priority=Priority.INTERACTIVE)
    sim.step()
    assert short.reason is FinishReason.LENGTH


def test_a_follower_does_not_wait_for_another_namespace() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=200))
    prompt = prompt_of(0, 90)
    one, two = sim.add(prompt, 1, namespace=b"one"), sim.add(prompt, 1, namespace=b"two")
    sim.step()
    assert one.computed == two.computed == 90


def test_a_leader_that_had_to_leave_loses_nothing_of_what_it_did_for_all() -> None:
    sim = simulation(2000, options=SchedulerOptions(step_tokens=16, max_lanes=1))
    trunk = prompt_of(0, 100)
    batch = [sim.add([*trunk, 1001 + i], 1, priority=Priority.BATCH) for i in range(3)]
    sim.run(3)
    urgent = sim.add(prompt_of(1, 40), 2, priority=Priority.INTERACTIVE)
    sim.drain()
    assert sim.scheduler.stats().preemptions == 1
    assert {r.reason for r in (*batch, urgent)} == {FinishReason.LENGTH}
    assert sim.n_computed == 100 + 3 + 40 + 1


def test_a_follower_leads_when_its_leader_has_to_wait_longer_than_itself() -> None:
    """An urgent follower of a batch job that had to leave does not wait for it to come back."""
    sim = simulation(2000, options=SchedulerOptions(step_tokens=16, max_lanes=1))
    trunk = prompt_of(0, 100)
    batch = sim.add([*trunk, 1001], 1, priority=Priority.BATCH)
    sim.run(2)
    other = sim.add(prompt_of(1, 40), 60, priority=Priority.INTERACTIVE)
    sim.run(2)
    urgent = sim.add([*trunk, 1002], 1, priority=Priority.INTERACTIVE)
    sim.drain()
    assert other.started_step is not None
    assert urgent.started_step is not None
    assert (urgent.computed, batch.computed) == (101 - 32, 32 + 1)


def test_a_follower_that_parts_earlier_takes_nothing_from_what_its_leader_does() -> None:
    sim = simulation(4000, options=SchedulerOptions(step_tokens=100, batch_step_s=None))
    trunk = prompt_of(0, 300)
    leader = sim.add(trunk, 1, priority=Priority.BATCH)
    sim.step()
    for n in (180, 148):
        sim.add([*trunk[:n], 1000 + n], 1, priority=Priority.INTERACTIVE)
    other = sim.add(prompt_of(1, 100), 1)
    sim.step()
    assert (leader.computed, other.computed) == (180, 20)
    sim.drain()
