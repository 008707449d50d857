"""Fair shares between tenants."""

from __future__ import annotations

import random

import pytest

from agentkit_runtime.sched import shares as shares_module
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.shares import MAX_IDLE, TenantShares
from tests.runtime.sched.simulation import next_token, prompt_of, simulation


def test_a_thousand_waiting_requests_do_not_block_another_tenants_first() -> None:
    sim = simulation(4000, options=SchedulerOptions(step_tokens=64, max_lanes=4))
    for i in range(1000):
        sim.add(prompt_of(i, 60), 3, tenant="crowd")
    sim.run(10)
    other = sim.add(prompt_of(5000, 60), 3, tenant="other")
    sim.run(6)
    assert other.started_step is not None
    assert other.started_step - other.submitted_step <= 5


@pytest.mark.parametrize("weights", [{}, {"a": 3.0}, {"a": 0.5, "b": 0.25}])
def test_computed_tokens_are_shared_by_weight(weights: dict[str, float]) -> None:
    options = SchedulerOptions(step_tokens=64, max_lanes=6, tenant_weights=weights)
    sim = simulation(8000, options=options)
    rng = random.Random(1)
    for i in range(900):
        # Long requests of one, short ones of the others: shares are of tokens, not of requests.
        tenant = "abc"[i % 3]
        n = rng.randrange(100, 200) if tenant == "a" else rng.randrange(10, 60)
        sim.add(prompt_of(i, n), 2, tenant=tenant)
    sim.run(160)
    computed = dict.fromkeys("abc", 0.0)
    for request in sim.requests:
        computed[request.sequence.tenant] += request.computed
    shares = [computed[t] / weights.get(t, 1.0) for t in "abc"]
    assert min(shares) > 0.9 * max(shares)


def test_two_tenants_prompts_advance_side_by_side() -> None:
    sim = simulation(8000, options=SchedulerOptions(step_tokens=32))
    long = sim.add(prompt_of(0, 1000), 1, tenant="a")
    sim.run(10)
    other = sim.add(prompt_of(1, 96), 1, tenant="b")
    sim.run(7)
    assert other.reason is not None
    assert long.computed >= 12 * 32


def test_a_tenant_that_was_idle_has_saved_up_nothing() -> None:
    shares = TenantShares({})
    for tenant in ("busy", "busy", "newcomer"):
        shares.enter(tenant)
    shares.leave("newcomer")
    shares.charge("busy", 1000)
    shares.enter("newcomer")
    assert shares.of("newcomer") == shares.of("busy") == 1000


def test_leaving_and_coming_back_pays_no_debts() -> None:
    shares = TenantShares({})
    for tenant in ("greedy", "other"):
        shares.enter(tenant)
    shares.charge("greedy", 500)
    shares.leave("greedy")
    shares.enter("greedy")
    assert shares.of("greedy") == 500


def test_when_nobody_competes_nobody_owes_anything() -> None:
    shares = TenantShares({})
    shares.enter("a")
    shares.charge("a", 500)
    shares.leave("a")
    shares.enter("b")
    shares.enter("a")
    assert shares.of("a") == shares.of("b") == 0


def test_memory_is_bounded_by_those_present() -> None:
    shares = TenantShares({})
    shares.enter("always")
    for i in range(3 * MAX_IDLE):
        shares.enter(f"t{i}")
        shares.charge(f"t{i}", 1)
        shares.leave(f"t{i}")
    assert len(shares._time) <= MAX_IDLE + 2


def test_a_tenant_that_holds_all_lanes_gives_one_up_for_another_that_has_none() -> None:
    """Else long answers of one would keep the other out for as long as they last."""
    sim = simulation(4000, options=SchedulerOptions(max_lanes=3, patience_s=1.0))
    crowd = [sim.add(prompt_of(i, 30), 200, tenant="crowd") for i in range(6)]
    sim.run(3)
    other = [sim.add(prompt_of(100 + i, 30), 40, tenant="other") for i in range(2)]
    sim.run(12)
    assert other[0].started_step is not None
    assert other[0].started_step - other[0].submitted_step <= 11
    # It has a lane now; its second one waits for its turn like others.
    assert sim.scheduler.stats().preemptions == 1
    sim.drain()
    for request in (*crowd, *other):
        assert request.ids == [
            *request.ids[:30],
            *(next_token(request.ids[:i]) for i in range(30, len(request.ids))),
        ]


def test_a_tenants_only_lane_is_its_own() -> None:
    sim = simulation(4000, options=SchedulerOptions(max_lanes=1, patience_s=0.0))
    sim.add(prompt_of(0, 30), 60, tenant="a")
    sim.run(3)
    sim.add(prompt_of(1, 30), 2, tenant="b")
    sim.drain()
    assert sim.scheduler.stats().preemptions == 0


@pytest.mark.parametrize("guess", [0, 3])
def test_all_that_runs_for_a_tenant_is_charged(guess: int) -> None:
    sim = simulation(500, guess=guess)
    request = sim.add(prompt_of(0, 40), 100, tenant="a")
    n_rows = 0
    for _ in range(20):
        sim.step()
        n_rows += sum(chunk.n_rows for chunk in sim.chunks)
    assert sim.scheduler._shares.of("a") == n_rows >= request.computed


def test_who_has_been_away_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares_module, "MAX_IDLE", 2)
    shares = TenantShares({})
    shares.enter("always")
    for tenant in "abac":
        shares.enter(tenant)
        shares.charge(tenant, 10)
        shares.leave(tenant)
    assert (shares.of("a"), shares.of("b"), shares.of("c")) == (20, 0, 10)


def test_tokens_are_counted_for_each_tenant_also_of_what_was_aborted() -> None:
    shares = TenantShares({"ann": 4.0})
    for tenant, n in (("ann", 30), ("bob", 5), ("ann", 12)):
        shares.enter(tenant)
        shares.charge(tenant, n)
        shares.leave(tenant)

    assert shares.computed == {"bob": 5, "ann": 42}


def test_counts_of_tenants_that_were_away_for_longest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shares_module, "MAX_IDLE", 2)
    shares = TenantShares({})
    for tenant in ("first", "second", "first", "third", "third"):
        shares.enter(tenant)
        shares.charge(tenant, 1)
        shares.leave(tenant)

    assert shares.computed == {"first": 2, "third": 2}
