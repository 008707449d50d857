"""What goes wrong in one request, or in one step, stays there; and every slot comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentkit_runtime.generation.shortage import halves
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.sched.sequence import Chunk
from agentkit_runtime.types import Delta, FinishReason, SamplingParams, TextDelta

from .fakes import Clock, Even, prompt_of

Make = Callable[..., Any]
BAD = 96


class HoldsBack:
    """Shows nothing before the end."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, token_id: int) -> TextDelta:
        self._held += f"{token_id} "
        return TextDelta("")

    def finish(self) -> str:
        return self._held


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Callable[..., Any]], None]:
    """Wrap a harness's forward pass: `around(harness, f)` calls `f(forward, batch, kv)`."""

    def wrap(harness: Any, outer: Callable[..., Any]) -> None:
        # The decoder is shared between tests; only this harness's steps go through `outer`.
        decoder = harness.core._decoder

        class Wrapped:
            config = decoder.config
            attention = decoder.attention

            def forward(self, batch: Any, kv: Any) -> torch.Tensor:
                return outer(decoder.forward, batch, kv)

        harness.core._decoder = Wrapped()

    return wrap


def nan_behind_bad(forward: Any, batch: Any, kv: Any) -> torch.Tensor:
    logits = forward(batch, kv)
    logits[batch.token_ids[batch.logit_rows] == BAD] = float("nan")
    return logits


def test_one_poisoned_request_fails_alone_and_nothing_of_it_is_cached(
    make: Make, around: Any
) -> None:
    good = [prompt_of(i, 30, alphabet=90) for i in range(3)]
    harness = make(step_tokens=512)
    around(harness, nan_behind_bad)
    runs = [harness.add(prompt, 6) for prompt in good]
    poisoned = [*prompt_of(9, 20, alphabet=90), BAD]
    bad = harness.add(poisoned, 6, sampling=SamplingParams(max_tokens=6, temperature=1.0))
    harness.drain()
    assert bad.finished.reason is FinishReason.ERROR
    assert bad.finished.error == "the model returned no finite logit for this request"
    for prompt, run in zip(good, runs, strict=True):
        assert run.ids == make().generate(prompt, 6).ids
    again = harness.generate(poisoned, 6)
    assert again.finished.stats.cached_tokens == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_prefix_whose_kv_went_bad_is_forgotten_by_the_request_that_meets_it(
    make: Make, value: float
) -> None:
    """R11: it must not spoil every request until somebody flushes the cache."""
    harness = make()
    prompt = prompt_of(1, 60)
    cold = harness.generate(prompt, 6)
    other = harness.add([*prompt[:10], 5, 6], 30)  # keeps the healthy front locked
    harness.step()
    cache = harness.core.cache
    probe = cache.acquire(b"ns", pack(prompt))
    [slot] = probe.extents_for(40, 1)
    cache.release(probe)
    harness.core._storage.layer(1).read(slot.start, 1)[1].fill_(value)

    hurt = harness.add([*prompt, 7], 6)
    harness.drain()
    assert hurt.finished.reason is FinishReason.ERROR
    assert other.finished.reason is FinishReason.LENGTH
    healed = harness.generate([*prompt, 7], 6)
    assert healed.finished.stats.cached_tokens == 10
    assert healed.ids == make().generate([*prompt, 7], 6).ids
    assert cold.ids == harness.generate(prompt, 6).ids


def out_of_memory(limit: int, error: Exception) -> Callable[..., torch.Tensor]:
    def outer(forward: Any, batch: Any, kv: Any) -> torch.Tensor:
        if batch.token_ids.numel() > limit:
            raise error
        return forward(batch, kv)

    return outer


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_step_without_memory_is_run_in_parts(make: Make, around: Any, error: Exception) -> None:
    prompts = [prompt_of(i, 25 + i) for i in range(4)]
    harness = make(step_tokens=64)
    around(harness, out_of_memory(33, error))
    runs = [harness.add(prompt, 8, speculate=3) for prompt in prompts]
    harness.drain()
    assert harness.core.stats().split_steps > 0
    for prompt, run in zip(prompts, runs, strict=True):
        assert run.finished.error is None
        assert run.ids == make().generate(prompt, 8).ids


def test_a_step_is_parted_until_it_fits(make: Make, around: Any) -> None:
    harness = make(step_tokens=64)
    around(harness, out_of_memory(3, torch.OutOfMemoryError("no 3 GiB left")))
    small, big = harness.add(prompt_of(1, 8), 4), harness.add(prompt_of(2, 50), 4)
    harness.drain()
    assert (small.finished.error, big.finished.error) == (None, None)
    assert big.ids == make().generate(prompt_of(2, 50), 4).ids


def test_guesses_are_given_up_before_their_request_fails(make: Make, around: Any) -> None:
    """A token with guesses behind it was tried again and again as it was, with all beside it."""
    prompts = [[n, *[7, 8, 9] * 5] for n in (1, 2)]
    harness = make(step_tokens=64)
    around(harness, out_of_memory(1, torch.OutOfMemoryError("no 3 GiB left")))
    runs = [harness.add(prompt, 8, speculate=3) for prompt in prompts]
    harness.drain()
    for prompt, run in zip(prompts, runs, strict=True):
        assert run.finished.error is None
        assert run.ids == make().generate(prompt, 8).ids


def test_without_any_memory_all_requests_of_the_step_fail_soon_and_say_so(
    make: Make, around: Any
) -> None:
    harness = make(step_tokens=512)
    n_tries = 0

    def never(forward: Any, batch: Any, kv: Any) -> torch.Tensor:
        nonlocal n_tries
        n_tries += 1
        raise torch.OutOfMemoryError("no 3 GiB left")

    around(harness, never)
    runs = [harness.add(prompt_of(n, 200), 4) for n in range(2)]
    harness.drain()
    assert {run.finished.error for run in runs} == {
        "the step failed: OutOfMemoryError: no 3 GiB left"
    }
    assert n_tries < 2**7
    assert harness.core.stats().held_slots == 0


def test_a_request_that_breaks_its_step_fails_alone(make: Make, around: Any) -> None:
    def breaks(forward: Any, batch: Any, kv: Any) -> torch.Tensor:
        if BAD in batch.token_ids.tolist():
            raise ValueError("an operator that cannot take this")
        return forward(batch, kv)

    good = [prompt_of(i, 20 + i, alphabet=90) for i in range(5)]
    harness = make(step_tokens=512)
    around(harness, breaks)
    runs = [harness.add(prompt, 6) for prompt in good]
    bad = harness.add([*prompt_of(9, 20, alphabet=90), BAD], 6)
    harness.drain()
    assert bad.finished.error == "the step failed: ValueError: an operator that cannot take this"
    # What they choose may be BAD itself, and then that is their own fault, too.
    for prompt, run in zip(good, runs, strict=True):
        oracle = make().generate(prompt, 6).ids
        assert run.ids == oracle or BAD in oracle
    assert sum(run.finished.error is None for run in runs) >= 3


@given(shape=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=6))
@example([(1, 1), (1, 0)])
@example([(1, 3)])
def test_halves_hold_every_token_once_and_in_order(shape: list[tuple[int, int]]) -> None:
    chunks = [Chunk(i, 5, n, (1,) * drafted) for i, (n, drafted) in enumerate(shape)]  # type: ignore[arg-type]
    total = sum(chunk.n_rows for chunk in chunks)
    if total < 2:
        return
    first, second = halves(chunks)
    assert max(sum(c.n_rows for c in half) for half in (first, second)) < total
    if shape == [(1, len(chunks[0].draft))]:
        assert (first, second) == ([Chunk(0, 5, 1)], [])  # type: ignore[arg-type]
        return
    for chunk in chunks:
        parts = [c for c in (*first, *second) if c.sequence == chunk.sequence]
        assert parts[0].start == chunk.start
        assert sum(c.n for c in parts) == chunk.n
        assert parts[-1].start + parts[-1].n == chunk.start + chunk.n
        assert parts[-1].draft == chunk.draft
        assert all(not c.draft for c in parts[:-1])


def test_a_late_request_ends_with_what_it_has(make: Make) -> None:
    clock = Clock()
    harness = make(clock=clock, max_lanes=2)
    late = harness.add(prompt_of(1, 20), 100, deadline_s=5.0, text=HoldsBack())
    free = harness.add(prompt_of(2, 20), 12)
    queued = harness.add(prompt_of(3, 20), 12, deadline_s=4.0)
    for _ in range(3):
        harness.step()
    clock.now = 6.0
    harness.drain()
    assert late.finished.reason is queued.finished.reason is FinishReason.DEADLINE
    assert late.text == "".join(f"{token} " for token in late.ids)
    assert len(late.ids) == 3
    assert "5" in (late.finished.error or "")
    assert late.finished.stats.total_s == 6.0
    assert queued.ids == []
    assert free.finished.reason is FinishReason.LENGTH
    assert harness.core.stats().ended[FinishReason.DEADLINE] == 2
    assert harness.core.stats().held_slots == 0


def test_a_request_that_finds_no_more_slots_shows_what_was_held_back(make: Make) -> None:
    """Regression: the last characters were lost when the scheduler ended a request."""
    harness = make(n_slots=128)
    pinned = prompt_of(2, 30)
    harness.generate(pinned, 0)
    harness.core.cache.pin(b"ns", pack(pinned))
    run = harness.generate(prompt_of(1, 60), 100, text=HoldsBack())
    assert run.finished.reason is FinishReason.LENGTH
    assert 30 < len(run.ids) < 40
    assert run.text == "".join(f"{token} " for token in run.ids)


@pytest.mark.parametrize("where", ["apply", "accept", "forced"])
def test_a_grammar_that_breaks_ends_its_own_request_only(
    make: Make, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R47."""
    grammar = Even()
    monkeypatch.setattr(grammar, where, lambda *_: 1 / 0)
    harness = make()
    broken = harness.add(prompt_of(1, 30), 8, grammar=grammar)
    fine = harness.add(prompt_of(2, 30), 8)
    harness.drain()
    assert broken.finished.reason is FinishReason.ERROR
    assert "ZeroDivisionError" in (broken.finished.error or "")
    assert fine.ids == make().generate(prompt_of(2, 30), 8).ids
    assert harness.core.stats().held_slots == 0


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_an_abort_anywhere_gives_everything_back_within_one_step(
    make: Make, data: st.DataObject
) -> None:
    """R7, R34: while queued, between chunks, while following, decoding, guessing, preempted."""
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    harness = make(n_slots=150, step_tokens=rng.choice([5, 16, 64]), max_lanes=4, reserve_tokens=8)
    trunk = prompt_of(0, 60, alphabet=4)
    runs: list[Any] = []
    for _ in range(rng.randrange(4, 14)):
        prompt = [*trunk[: rng.randrange(1, 60)], *prompt_of(rng.randrange(9), rng.randrange(1, 9))]
        runs.append(harness.add(prompt, rng.choice([0, 3, 40]), speculate=rng.choice([0, 4])))
        for _ in range(rng.randrange(3)):
            harness.step()
        gone = rng.choice(runs)
        harness.core.abort(gone.request_id)
        harness.step()
        held = {s.request.request_id for s in harness.core.scheduler.running}
        assert gone.events
        assert gone.request_id not in held
    for run in runs:
        harness.core.abort(run.request_id)
    harness.step()
    assert harness.core.idle
    assert harness.core.stats().held_slots == 0
    for run in runs:
        assert sum(not isinstance(event, Delta) for event in run.events) == 1


PUBLIC = b"public"


def published_and_spoiled(make: Make) -> tuple[Any, list[int]]:
    """A harness with a published prefix of 60 tokens, of which one has no number any more."""
    harness = make()
    prompt = prompt_of(1, 60)
    harness.generate(prompt, 0, namespace=PUBLIC)
    cache = harness.core.cache
    cache.publish(PUBLIC, pack(prompt))
    probe = cache.acquire(PUBLIC, pack(prompt))
    [slot] = probe.extents_for(40, 1)
    cache.release(probe)
    harness.core._storage.layer(1).read(slot.start, 1)[1].fill_(float("nan"))
    return harness, prompt


def test_a_published_prefix_whose_kv_went_bad_spoils_one_request_and_not_all(make: Make) -> None:
    """R11: nobody else would have forgotten it, and all tenants start from it."""
    harness, prompt = published_and_spoiled(make)
    scope = Scope(tenant="a", public=PUBLIC)
    hurt = harness.generate([*prompt, 7], 6, scope=scope)
    assert hurt.finished.reason is FinishReason.ERROR
    assert harness.core.cache.published() == []
    for namespace in (b"ns", PUBLIC):
        healed = harness.generate([*prompt, 7], 6, namespace=namespace, scope=scope)
        assert healed.ids == make().generate([*prompt, 7], 6).ids


def test_a_published_prefix_that_its_own_root_finds_bad_does_not_stop_the_engine(
    make: Make,
) -> None:
    harness, prompt = published_and_spoiled(make)
    hurt = harness.generate([*prompt, 7], 6, namespace=PUBLIC)
    assert hurt.finished.reason is FinishReason.ERROR
    assert harness.core.cache.published() == []
    healed = harness.generate([*prompt, 7], 6, namespace=PUBLIC)
    assert healed.ids == make().generate([*prompt, 7], 6).ids


class BreaksAt:
    """A text stream that fails at its third token."""

    def __init__(self) -> None:
        self._n = 0

    def push(self, token_id: int) -> TextDelta:
        self._n += 1
        if self._n == 3:
            raise RuntimeError("broken")
        return TextDelta("")

    def finish(self) -> str:
        return ""


def test_a_token_that_the_caller_did_not_get_is_not_counted(make: Make) -> None:
    harness = make()
    run = harness.generate(prompt_of(1, 20), 9, text=BreaksAt())
    assert run.finished.reason is FinishReason.ERROR
    assert len(run.ids) == run.finished.stats.completion_tokens == 2
    assert harness.core.stats().generated_tokens == 2
