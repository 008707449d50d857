"""Anything in any order: every request ends rightly, and no slot is lost on the way."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.sched.simulation import Request, Simulation, next_token, simulation

prompts = st.one_of(
    st.lists(st.integers(0, 1), min_size=1, max_size=14),
    # Blocks of a slower tier have 16 tokens.
    st.tuples(st.integers(0, 1), st.integers(16, 19)).map(lambda both: [both[0]] * both[1]),
)
options = st.builds(
    SchedulerOptions,
    step_tokens=st.sampled_from([1, 3, 8, 64]),
    batch_rests_s=st.sampled_from([0.0, 0.3, 1.0]),
    batch_step_s=st.sampled_from([None, 0.01, 0.1]),
    mixed_prefill_tokens=st.sampled_from([None, 1, 4]),
    max_lanes=st.integers(1, 5),
    reserve_tokens=st.sampled_from([0, 4]),
    shared_min_tokens=st.sampled_from([1, 4]),
    max_scan=st.sampled_from([1, 256]),
    patience_s=st.sampled_from([0.0, 1.0, 100.0]),
    turns_per_old=st.integers(1, 4),
    max_overtakes=st.integers(0, 3),
    max_preemptions=st.integers(0, 2),
    preempt_for_priority=st.booleans(),
    deadline_lead_s=st.sampled_from([None, 1.0]),
    tenant_weights=st.sampled_from([{}, {"a": 3.0}]),
)


class Scheduling(RuleBasedStateMachine):
    """Requests come and go; a simulated core checks each step (see `Simulation`)."""

    sim: Simulation

    @initialize(
        options=options,
        n_slots=st.integers(20, 60),
        guess=st.sampled_from([0, 2]),
        tier=st.booleans(),
    )
    def begin(self, options: SchedulerOptions, n_slots: int, guess: int, tier: bool) -> None:
        self.sim = simulation(n_slots, options=options, guess=guess, tier=tier)

    @rule(
        prompt=prompts,
        n=st.integers(0, 12),
        tenant=st.sampled_from(["a", "b", "c"]),
        priority=st.sampled_from(Priority),
        deadline_s=st.sampled_from([None, None, 0.0, 0.5, 5.0]),
        namespace=st.sampled_from([b"one", b"two"]),
        n_copies=st.integers(1, 3),
    )
    def submit(
        self,
        prompt: list[int],
        n: int,
        tenant: str,
        priority: Priority,
        deadline_s: float | None,
        namespace: bytes,
        n_copies: int,
    ) -> None:
        for _ in range(n_copies):
            self.sim.add(
                prompt,
                n,
                tenant=tenant,
                priority=priority,
                deadline_s=deadline_s,
                namespace=namespace,
            )

    @precondition(lambda self: not self.sim.idle)
    @rule(n=st.integers(1, 4))
    def step(self, n: int) -> None:
        for _ in range(n):
            self.sim.step()

    @rule(broken=st.booleans())
    def arrive(self, broken: bool) -> None:
        self.sim.tier.broken = broken
        self.sim.tier.arrive()

    @rule(n=st.integers(1, 40))
    def evict(self, n: int) -> None:
        self.sim.cache.evict(n)

    @precondition(lambda self: not self.sim.idle)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        alive = [r for r in self.sim.requests if r.reason is None]
        request = data.draw(st.sampled_from(alive))
        request.sequence.aborted = True
        self.sim.step()
        assert request.reason is FinishReason.ABORT

    def teardown(self) -> None:
        if hasattr(self, "sim"):
            self.sim.tier.broken = False
            self.sim.drain()
            for request in self.sim.requests:
                self.check(request)

    def check(self, request: Request) -> None:
        sequence = request.sequence
        ids, n_prompt = request.ids, sequence.n_prompt
        for i in range(n_prompt, len(ids)):
            assert ids[i] == next_token(ids[:i])
        if request.reason is FinishReason.LENGTH:
            # The limit, or all of the pool.
            assert len(ids) == sequence.limit or len(ids) > self.sim.n_slots
        assert request.reason in (
            FinishReason.LENGTH,
            FinishReason.ABORT,
            FinishReason.DEADLINE,
        )
        assert sequence.preemptions <= self.sim.scheduler.n_preemptions


TestScheduling = Scheduling.TestCase
TestScheduling.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
