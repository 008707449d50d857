"""Everything together: what each request gives is what it would give alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_runtime.generation.samples import samples
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.types import FinishReason, GenerateRequest, Priority, SamplingParams

from .conftest import IdText
from .fakes import Clock, Even, prompt_of

Make = Callable[..., Any]
EOS = 7


@dataclass(frozen=True)
class Wanted:
    """What to ask, twice: among others, and alone."""

    prompt: tuple[int, ...]
    sampling: SamplingParams
    constrained: bool
    speculate: int
    priority: Priority
    tenant: str
    deadline_s: float | None

    def request(self, request_id: str, *, alone: bool = False) -> GenerateRequest:
        return GenerateRequest(
            request_id=request_id,
            prompt=self.prompt,
            namespace=f"ns-{self.tenant}".encode(),
            text=IdText(),
            sampling=self.sampling,
            grammar=Even() if self.constrained else None,
            eos_ids=frozenset({EOS}),
            scope=Scope(tenant=self.tenant),
            priority=self.priority,
            deadline_s=None if alone else self.deadline_s,
            speculate=0 if alone else self.speculate,
        )


def wanted(rng: random.Random, trunk: list[int]) -> Wanted:
    n_own = rng.randrange(1, 15)
    own = prompt_of(rng.randrange(50), n_own, alphabet=rng.choice([3, 97]))
    return Wanted(
        prompt=(*trunk[: rng.randrange(len(trunk))], *own),
        sampling=SamplingParams(
            max_tokens=rng.choice([0, 1, 5, 20]),
            temperature=rng.choice([0.0, 0.0, 4.0]),
            top_k=rng.choice([0, 10]),
            seed=rng.randrange(100),
        ),
        constrained=rng.random() < 0.2,
        speculate=rng.choice([0, 0, 3, 8]),
        priority=rng.choice(list(Priority)),
        tenant=rng.choice("ab"),
        deadline_s=rng.choice([None, None, None, 30.0]),
    )


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**9))
def test_any_mix_of_requests_gives_what_each_gives_alone(make: Make, seed: int) -> None:
    """Priorities, tenants, guesses, forks, fill-only requests, deadlines, aborts, a small pool."""
    rng = random.Random(seed)
    clock = Clock()
    harness = make(
        n_slots=rng.choice([120, 200, 512]),
        step_tokens=rng.choice([4, 24, 512]),
        max_lanes=rng.choice([2, 8]),
        reserve_tokens=rng.choice([0, 16]),
        shared_min_tokens=rng.choice([1, 16, 10**6]),
        clock=clock,
    )
    trunk = prompt_of(seed, 70)
    asked: list[tuple[Wanted, int, Any]] = []
    for number in range(rng.randrange(3, 12)):
        want = wanted(rng, trunk)
        n = rng.choice([1, 1, 1, 3])
        request = want.request(f"r{number}")
        grammar = Even if want.constrained else lambda: None
        for i, fork in enumerate(samples(request, n, text=IdText, grammar=grammar)):
            asked.append((want, i, harness.submit(fork)))
        for _ in range(rng.randrange(4)):
            harness.step()
            clock.now += 1.0
        if rng.random() < 0.2:
            harness.core.abort(rng.choice(asked)[2].request_id)
    harness.drain()

    assert harness.core.stats().held_slots == 0
    for want, i, run in asked:
        reason = run.finished.reason
        assert reason is not FinishReason.ERROR, run.finished.error
        sampling = want.sampling
        [alone] = samples(want.request("alone", alone=True), 1, text=IdText)
        oracle = make(n_slots=2000)
        seeded = SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            seed=(sampling.seed or 0) + i,
        )
        expected = oracle.generate(
            want.prompt,
            sampling=seeded,
            grammar=Even() if want.constrained else None,
            eos=alone.eos_ids,
        )
        whole = reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert run.ids == (expected.ids if whole else expected.ids[: len(run.ids)])
        if whole:
            assert reason is expected.finished.reason
