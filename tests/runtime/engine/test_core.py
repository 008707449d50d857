"""The core: cached equals uncached, alone equals batched, and every slot comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import Delta, FinishReason, SamplingParams
from tests.runtime.engine.fakes import Recorder

Make = Callable[..., Any]
VOCAB = 97


class Forcing(Recorder):
    """Forces a fixed continuation after the first token, then is done."""

    def __init__(self, forced: list[int]) -> None:
        super().__init__()
        self._forced = forced
        self.accepted: list[int] = []

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)

    def forced(self) -> list[int]:
        forced, self._forced = self._forced, []
        return forced


def prompt_of(seed: int, n: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(VOCAB) for _ in range(n)]


def test_a_repeated_prompt_is_read_from_the_tree_but_for_its_last_token(make: Make) -> None:
    harness = make()
    prompt = prompt_of(1, 50)
    cold, warm = harness.generate(prompt), harness.generate(prompt)
    assert cold.finished.stats.cached_tokens == 0
    assert warm.finished.stats.cached_tokens == 49
    assert warm.ids == cold.ids


def test_generated_tokens_are_matched_by_the_next_turn(make: Make) -> None:
    harness = make()
    prompt = prompt_of(2, 30)
    first = harness.generate(prompt, 10)
    follow_up = harness.generate([*prompt, *first.ids, 5, 6], 4)
    # The last generated token was never run, so its KV does not exist.
    assert follow_up.finished.stats.cached_tokens == 39


def test_a_prompt_in_chunks_gives_the_same_tokens_as_in_one_piece(make: Make) -> None:
    prompt = prompt_of(3, 120)
    whole = make(step_tokens=512).generate(prompt, 16)
    for step_tokens in (1, 7, 64):
        assert make(step_tokens=step_tokens).generate(prompt, 16).ids == whole.ids


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_cached_equals_uncached_for_any_split_and_any_neighbours(
    make: Make, data: st.DataObject
) -> None:
    """Invariant 2 of the runtime: last-token logits within 1e-3, greedy tokens identical."""
    prompt = prompt_of(data.draw(st.integers(0, 10**6)), data.draw(st.integers(2, 150)))
    alone, recorder = make(), Recorder()
    reference = alone.add(prompt, 6, grammar=recorder)
    alone.drain()

    shared = make(
        step_tokens=data.draw(st.sampled_from([3, 16, 64, 512])),
        shared_min_tokens=data.draw(st.sampled_from([1, 16, 10**6])),
    )
    for cut in data.draw(st.lists(st.integers(1, len(prompt)), max_size=3)):
        shared.generate([*prompt[:cut], *prompt_of(cut, data.draw(st.integers(0, 9)))], 2)
    neighbours = data.draw(st.lists(st.integers(0, len(prompt)), max_size=4))
    for i, cut in enumerate(neighbours):
        shared.add([*prompt[:cut], *prompt_of(i + 99, 1 + i)], data.draw(st.integers(1, 9)))
    seen = Recorder()
    run = shared.add(prompt, 6, grammar=seen)
    shared.drain()
    assert run.ids == reference.ids
    for ours, theirs in zip(seen.rows, recorder.rows, strict=True):
        assert float((ours - theirs).abs().max()) < 1e-3


def test_two_equal_prompts_in_one_batch_end_on_the_same_canonical_slots(make: Make) -> None:
    """Regression of a public bug (mini-sglang #142): the second kept slots that had been freed."""
    harness = make(shared_min_tokens=10**6, step_tokens=64)
    prompt = prompt_of(4, 32)
    first, second = harness.add(prompt, 8), harness.add(prompt, 8)
    harness.step()
    one, two = (s.lease for s in harness.core.scheduler.running)
    assert one.extents_for(0, 32) == two.extents_for(0, 32)
    third = harness.add(prompt_of(5, 40), 8)
    harness.drain()
    assert first.ids == second.ids == make().generate(prompt, 8).ids
    assert third.ids == make().generate(prompt_of(5, 40), 8).ids


def test_a_cold_prefix_that_many_share_is_computed_once(make: Make) -> None:
    harness = make(step_tokens=64)
    prefix = prompt_of(6, 200)
    runs = [harness.add([*prefix, i, i + 1], 3) for i in range(5)]
    harness.drain()
    assert [run.finished.stats.cached_tokens for run in runs] == [0, 200, 200, 200, 200]
    # One prefix, five tails of two, and the generated tokens that had to be run.
    assert harness.core.stats().computed_tokens == 200 + 5 * 2 + 5 * 2
    for i, run in enumerate(runs):
        assert run.ids == make().generate([*prefix, i, i + 1], 3).ids


def test_followers_go_on_when_the_leader_is_aborted(make: Make) -> None:
    harness = make(step_tokens=32)
    prefix = prompt_of(7, 150)
    leader, follower = harness.add([*prefix, 1], 3), harness.add([*prefix, 2], 3)
    harness.step()
    harness.core.abort(leader.request_id)
    harness.drain()
    assert leader.finished.reason is FinishReason.ABORT
    assert follower.ids == make().generate([*prefix, 2], 3).ids


@pytest.mark.parametrize("after", range(8))
def test_an_abort_gives_its_slots_back_within_one_step(make: Make, after: int) -> None:
    harness = make(step_tokens=16, reserve_tokens=64)
    kept = harness.add(prompt_of(8, 40), 30)
    gone = harness.add(prompt_of(9, 60), 30)
    for _ in range(after):
        harness.step()
    harness.core.abort(gone.request_id)
    harness.step()
    assert gone.finished.reason is FinishReason.ABORT
    held = {s.request.request_id for s in harness.core.scheduler.running}
    assert gone.request_id not in held
    harness.drain()
    assert harness.core.stats().held_slots == 0
    assert kept.ids == make().generate(prompt_of(8, 40), 30).ids


def test_aborting_while_queued_leaks_nothing(make: Make) -> None:
    harness = make(n_slots=64, max_lanes=1)
    harness.add(prompt_of(1, 30), 20)
    harness.step()
    for i in range(200):
        run = harness.add(prompt_of(i, 20), 5)
        harness.core.abort(run.request_id)
        harness.core.abort(run.request_id)
    harness.drain()
    assert harness.core.stats().held_slots == 0


def test_running_out_of_slots_preempts_and_resumes_with_the_same_tokens(make: Make) -> None:
    prompts = [prompt_of(20 + i, 30) for i in range(4)]
    harness = make(n_slots=160, reserve_tokens=0)
    runs = [harness.add(prompt, 60) for prompt in prompts]
    harness.drain()
    assert harness.core.stats().preemptions > 0
    assert [run.finished.reason for run in runs] == [FinishReason.LENGTH] * 4
    for prompt, run in zip(prompts, runs, strict=True):
        assert run.ids == make().generate(prompt, 60).ids
    assert harness.core.stats().held_slots == 0


def test_reserved_slots_are_given_back_before_anybody_is_preempted(make: Make) -> None:
    harness = make(n_slots=110, reserve_tokens=40)
    runs = [harness.add(prompt_of(30 + i, 25), 20) for i in range(2)]
    harness.drain()
    assert harness.core.stats().preemptions == 0
    assert [len(run.ids) for run in runs] == [20, 20]


def test_a_lone_sequence_that_fills_the_pool_ends_by_length(make: Make) -> None:
    harness = make(n_slots=64)
    run = harness.generate(prompt_of(1, 60), 50)
    assert run.finished.reason is FinishReason.LENGTH
    assert 3 <= len(run.ids) <= 5


def test_generation_stops_at_the_context_limit(make: Make) -> None:
    run = make(n_slots=512).generate(prompt_of(1, 395), 50)
    assert run.finished.reason is FinishReason.LENGTH
    assert len(run.ids) == 5


def test_end_of_sequence_stop_text_and_max_tokens_each_end_a_generation(make: Make) -> None:
    prompt = prompt_of(10, 20)
    free = make().generate(prompt, 12).ids
    ended = make().add
    harness = make()
    by_eos = harness.add(prompt, 12, eos=frozenset({free[4]}))
    by_text = harness.add(prompt, 12, stop_at=free[6])
    harness.drain()
    first_eos, first_stop = free.index(free[4]), free.index(free[6])
    assert by_eos.finished.reason is by_text.finished.reason is FinishReason.STOP
    assert by_eos.ids == free[: first_eos + 1]
    assert by_text.ids == free[: first_stop + 1]
    assert (
        str(free[6]) not in "".join(e.text for e in by_text.events if isinstance(e, Delta)).split()
    )
    assert ended is not None


def test_forced_tokens_are_taken_without_sampling_and_run_in_one_chunk(make: Make) -> None:
    harness = make()
    grammar = Forcing([11, 12, 13, 14])
    run = harness.add(prompt_of(11, 20), 8, grammar=grammar)
    harness.drain()
    assert run.ids[1:5] == [11, 12, 13, 14]
    assert grammar.accepted == run.ids
    # 8 tokens, but only the first and the last three needed a step of their own.
    assert harness.core.stats().steps == 4
    expected = make().generate([*prompt_of(11, 20), *run.ids[:5]], 3).ids
    assert run.ids[5:] == expected


def test_a_seed_repeats_a_generation_whatever_else_is_in_the_batch(make: Make) -> None:
    params = SamplingParams(temperature=1.0, top_k=20, top_p=0.9, seed=7, max_tokens=20)
    alone = make()
    one = alone.add(prompt_of(1, 10), sampling=params)
    alone.drain()
    crowded = make()
    for i in range(3):
        crowded.add(prompt_of(i, 10), sampling=SamplingParams(temperature=2.0, max_tokens=20))
    two = crowded.add(prompt_of(1, 10), sampling=params)
    crowded.drain()
    assert one.ids == two.ids
    other = make()
    three = other.add(
        prompt_of(1, 10), sampling=SamplingParams(temperature=1.0, seed=8, max_tokens=20)
    )
    other.drain()
    assert three.ids != one.ids


def test_one_bad_request_does_not_take_the_batch_down(make: Make) -> None:
    class Broken(Recorder):
        def apply(self, logits: torch.Tensor) -> None:
            raise RuntimeError("grammar went wrong")

    class Nothing(Recorder):
        def apply(self, logits: torch.Tensor) -> None:
            logits.fill_(float("-inf"))

    harness = make()
    bad = harness.add(prompt_of(1, 20), grammar=Broken())
    empty = harness.add(prompt_of(2, 20), grammar=Nothing())
    good = harness.add(prompt_of(3, 20))
    harness.drain()
    assert "grammar went wrong" in (bad.finished.error or "")
    assert "no finite logit" in (empty.finished.error or "")
    assert good.ids == make().generate(prompt_of(3, 20)).ids
    assert harness.core.stats().held_slots == 0


def test_a_failing_forward_pass_ends_its_requests_and_the_core_goes_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make()
    run = harness.add(prompt_of(1, 20))
    with monkeypatch.context() as patch:
        patch.setattr(harness.core._decoder, "forward", lambda *_: 1 / 0)
        harness.step()
    assert run.finished.reason is FinishReason.ERROR
    assert "ZeroDivisionError" in (run.finished.error or "")
    assert harness.generate(prompt_of(1, 20)).ids == make().generate(prompt_of(1, 20)).ids


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("reference", [False, True])
def test_half_precision_runs_and_cached_equals_uncached(
    half: Callable[..., Any], dtype: torch.dtype, reference: bool
) -> None:
    """Regression: rotated queries became float32. `reference` is the path of other devices."""
    harness = half(dtype, reference)
    prompt = prompt_of(1, 40)
    recorders = [Recorder(), Recorder()]
    for recorder in recorders:
        run = harness.add(prompt, 1, grammar=recorder)
        harness.drain()
        assert run.finished.error is None
    cold, warm = (recorder.rows[0] for recorder in recorders)
    assert run.finished.stats.cached_tokens == 39
    spread = float(cold.max() - cold.min())
    assert float((cold - warm).abs().max()) < 0.05 * spread


def test_a_tiny_temperature_draws_the_most_likely_token(make: Make) -> None:
    """Regression: logits divided by 1e-40 overflowed."""
    greedy = make().generate(prompt_of(3, 20), 8).ids
    harness = make()
    run = harness.add(prompt_of(3, 20), sampling=SamplingParams(temperature=1e-40, max_tokens=8))
    harness.drain()
    assert run.ids == greedy


def test_namespaces_share_nothing(make: Make) -> None:
    harness = make()
    prompt = prompt_of(1, 40)
    harness.add(prompt, namespace=b"one")
    harness.drain()
    other = harness.add(prompt, namespace=b"two")
    harness.drain()
    assert other.finished.stats.cached_tokens == 0


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "no tokens"),
        ([1] * 400, "the limit is 399"),
        ([1, VOCAB], "token ids must be in"),
        ([-1], "token ids must be in"),
    ],
)
def test_a_request_that_can_never_run_is_rejected_at_once(
    make: Make, prompt: list[int], message: str
) -> None:
    with pytest.raises(RequestRejected, match=message):
        make().add(prompt)


def test_a_long_prompt_is_not_overtaken_for_ever(make: Make) -> None:
    """Short requests that keep coming must not starve one that needs much room."""
    harness = make(n_slots=120, max_lanes=4, reserve_tokens=0)
    for i in range(3):
        harness.add(prompt_of(i, 20), 10)
    harness.step()
    big = harness.add(prompt_of(50, 100), 2)
    later = [harness.add(prompt_of(60 + i, 20), 2) for i in range(6)]
    harness.drain()
    assert big.events
    assert big.finished.reason is FinishReason.LENGTH
    order = [run.finished.stats.queue_s for run in (big, *later)]
    assert sum(queued < order[0] for queued in order[1:]) <= SchedulerOptions().max_overtakes


def test_a_long_random_day_leaks_no_slot_and_equals_the_uncached_oracle(make: Make) -> None:
    rng = random.Random(5)
    harness = make(n_slots=300, step_tokens=48, max_lanes=6)
    trunk = prompt_of(0, 120)
    live: list[tuple[list[int], Any]] = []
    for _ in range(120):
        cut = rng.randrange(1, 120)
        prompt = [*trunk[:cut], *prompt_of(rng.randrange(40), rng.randrange(1, 20))]
        live.append((prompt, harness.add(prompt, rng.randrange(1, 12))))
        for _ in range(rng.randrange(4)):
            harness.step()
        if rng.random() < 0.2:
            harness.core.abort(rng.choice(live)[1].request_id)
    harness.drain()
    assert harness.core.stats().held_slots == 0
    oracle = make(n_slots=2000)
    for prompt, run in rng.sample(live, 40):
        expected = oracle.generate(prompt, 12).ids
        oracle.core.cache.clear()
        assert run.ids == expected[: len(run.ids)]
        if run.finished.reason is not FinishReason.ABORT:
            assert run.ids


@pytest.mark.parametrize("token", [1.5, "7", None, 2**31, 2**80, -1, VOCAB])
def test_what_is_no_token_is_refused_before_the_engine_sees_it(make: Make, token: Any) -> None:
    """The engine's thread could only die of it, with all that runs there."""
    with pytest.raises(RequestRejected, match="token ids must be") as caught:
        make().add([1, token, 2])
    assert caught.value.field == "prompt"
