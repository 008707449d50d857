"""Guessing ahead changes the number of steps and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_runtime.generation.drafting import PromptLookup, row_cost, useful
from agentkit_runtime.generation.run import Run
from agentkit_runtime.types import FinishReason, SamplingParams

from .fakes import Even, drafts_of, prompt_of

Make = Callable[..., Any]
EOS = 7


@pytest.fixture
def guess(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Run], list[int]]], None]:
    """Replace the lookup: `guess(f)` drafts what `f(run)` returns, whatever it is."""

    def use(guesser: Callable[[Run], list[int]]) -> None:
        monkeypatch.setattr(Run, "draft", lambda run, n_lanes: tuple(guesser(run)))

    return use


def oracle(continuation: list[int], n: int) -> Callable[[Run], list[int]]:
    """Guess what will come; `continuation` is what the model says without guesses."""

    def guesser(run: Run) -> list[int]:
        at = run.sequence.n_generated
        return continuation[at : at + n]

    return guesser


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_the_output_is_the_same_with_and_without_guesses(make: Make, data: st.DataObject) -> None:
    """Greedy or seeded, with a grammar or without, alone or beside others, for any budget."""
    seed = data.draw(st.integers(0, 10**6))
    prompt = prompt_of(seed, data.draw(st.integers(2, 60)), alphabet=data.draw(st.integers(2, 8)))
    sampling = SamplingParams(
        max_tokens=data.draw(st.integers(1, 25)),
        temperature=data.draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        top_p=data.draw(st.sampled_from([1.0, 0.9])),
        seed=seed,
        logprobs=data.draw(st.sampled_from([None, 0, 2])),
    )
    grammar = data.draw(st.sampled_from([lambda: None, Even]))
    plain = make().generate(prompt, sampling=sampling, grammar=grammar(), eos={EOS})

    harness = make(
        n_slots=data.draw(st.sampled_from([130, 512])),
        step_tokens=data.draw(st.sampled_from([3, 16, 512])),
        reserve_tokens=data.draw(st.sampled_from([0, 32])),
    )
    for i in range(data.draw(st.integers(0, 3))):
        harness.add(prompt_of(i, 20, alphabet=3), 20, speculate=i)
    run = harness.add(
        prompt,
        sampling=sampling,
        grammar=grammar(),
        eos={EOS},
        speculate=data.draw(st.integers(1, 10)),
    )
    harness.drain()
    assert run.ids == plain.ids
    assert run.text == plain.text
    assert run.finished.reason is plain.finished.reason
    assert run.finished.error is None
    assert [p.token_id for p in run.logprobs] == [p.token_id for p in plain.logprobs]
    for ours, theirs in zip(run.logprobs, plain.logprobs, strict=True):
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-3)
    assert harness.core.stats().held_slots == 0


def test_right_guesses_save_steps_and_wrong_ones_cost_none(make: Make, guess: Any) -> None:
    prompt = prompt_of(1, 30)
    plain = make()
    expected = plain.generate(prompt, 21).ids
    guess(oracle(expected, 4))
    harness = make()
    run = harness.generate(prompt, 21, speculate=4)
    assert run.ids == expected
    # The first token comes from the prompt, then five at a time.
    assert harness.core.stats().steps == 1 + 4
    assert run.finished.stats.drafted_tokens == run.finished.stats.accepted_tokens == 16

    guess(lambda run: [expected[run.sequence.n_generated] + 1] * 4)
    harness = make()
    run = harness.generate(prompt, 20, speculate=4)
    assert run.ids == expected[:20]
    assert harness.core.stats().steps == 20
    assert run.finished.stats.drafted_tokens > 0
    assert run.finished.stats.accepted_tokens == 0


def test_kv_of_wrong_guesses_is_never_read_again(make: Make, guess: Any) -> None:
    """R11, R47: neither by this request, nor by the next turn through the tree."""
    prompt = prompt_of(2, 30)
    expected = make().generate(prompt, 12).ids
    half_right = oracle(expected, 2)
    guess(lambda run: [*half_right(run)[:2], 5, 6, 7][:5])
    harness = make(n_slots=100, reserve_tokens=0)
    first = harness.generate(prompt, 12, speculate=5)
    assert first.ids == expected
    again = [*prompt, *first.ids, 1, 2]
    follow_up = harness.generate(again, 8)
    assert follow_up.finished.stats.cached_tokens in (41, 42)
    assert follow_up.ids == make().generate(again, 8).ids


@pytest.mark.parametrize("end", ["eos", "stop", "length"])
def test_an_end_inside_a_guess_ends_there(make: Make, guess: Any, end: str) -> None:
    prompt = prompt_of(10, 20)
    drawn = SamplingParams(max_tokens=30, temperature=50.0, seed=3)
    free = make().generate(prompt, sampling=drawn).ids
    at = next(i for i in range(12, 30) if free.index(free[i]) == i)
    guess(oracle(free, 8))
    harness = make()
    options: dict[str, Any] = {"sampling": drawn}
    if end == "eos":
        options["eos"] = {free[at]}
    elif end == "stop":
        options["stop_at"] = free[at]
    else:
        options["sampling"] = replace(drawn, max_tokens=at + 1)
    run = harness.generate(prompt, speculate=8, **options)
    assert run.ids == free[: at + 1]
    assert run.finished.reason is (FinishReason.LENGTH if end == "length" else FinishReason.STOP)
    assert harness.core.stats().steps == 3
    follow_up = harness.generate([*prompt, *run.ids, 3], 6)
    assert follow_up.ids == make().generate([*prompt, *run.ids, 3], 6).ids


def test_guesses_that_the_grammar_forbids_are_not_run(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R47."""
    monkeypatch.setattr(PromptLookup, "propose", lambda *_: (2, 4, 5, 6))
    harness = make()
    seen = drafts_of(harness.core, harness.core.scheduler.plan)
    prompt = prompt_of(3, 80)
    run = harness.generate(prompt, 40, speculate=6, grammar=Even())
    assert set(seen) == {(2, 4), (2,)}  # near the limit there is room for one only
    assert run.finished.error is None
    assert run.ids == make().generate(prompt, 40, grammar=Even()).ids


def test_forced_tokens_that_were_guessed_keep_their_kv(make: Make, guess: Any) -> None:
    prompt = prompt_of(4, 40)
    plain = make()
    expected = plain.generate(prompt, 30, grammar=Even()).ids
    guess(oracle(expected, 6))
    harness = make()
    run = harness.generate(prompt, 30, grammar=Even(), speculate=6)
    assert run.ids == expected
    assert harness.core.stats().steps < plain.core.stats().steps
    assert run.finished.stats.accepted_tokens == run.finished.stats.drafted_tokens


def test_kv_of_forced_tokens_that_were_guessed_wrongly_is_computed_again(
    make: Make, guess: Any
) -> None:
    prompt = prompt_of(4, 40)
    expected = make().generate(prompt, 30, grammar=Even()).ids
    guess(lambda run: [expected[run.sequence.n_generated], 95, 95, 95])
    harness = make()
    seen = drafts_of(harness.core, harness.core.scheduler.plan)
    run = harness.generate(prompt, 30, grammar=Even(), speculate=4)
    assert run.ids == expected
    assert run.finished.stats.accepted_tokens == len(seen)
    assert any(token % 10 == 0 for token in run.ids[:-1]), "nothing was forced"
    again = [*prompt, *run.ids, 1]
    assert harness.generate(again, 8).ids == make().generate(again, 8).ids


def test_a_text_that_repeats_itself_takes_fewer_steps(make: Make) -> None:
    """A greedy random model runs into a cycle sooner or later, as a real one copies."""
    prompt = prompt_of(5, 30)
    plain, fast = make(), make()
    expected = plain.generate(prompt, 300).ids
    run = fast.generate(prompt, 300, speculate=8)
    assert run.ids == expected
    assert fast.core.stats().steps < 0.5 * plain.core.stats().steps
    assert 0 < run.finished.stats.accepted_tokens <= run.finished.stats.drafted_tokens


def test_guessing_stops_where_it_does_not_pay(make: Make) -> None:
    harness = make()
    sampling = SamplingParams(max_tokens=300, temperature=50.0, seed=1)
    run = harness.generate(prompt_of(6, 60, alphabet=3), sampling=sampling, speculate=8)
    assert run.finished.stats.drafted_tokens < 40


def test_the_longest_known_ending_decides_and_of_equal_ones_the_latest() -> None:
    lookup = PromptLookup([1, 2, 3, 4, 50, 51, 9, 3, 4, 60, 61, 8, 1, 2, 3, 4], max_draft=2)
    assert lookup.propose(0.25) == (50, 51)
    lookup = PromptLookup([3, 4, 50, 51, 9, 3, 4, 60, 61, 8, 3, 4], max_draft=2)
    assert lookup.propose(0.25) == (60, 61)
    assert PromptLookup([1, 2, 3, 4, 5], max_draft=4).propose(0.25) == ()


def test_a_guess_goes_on_where_its_source_ends() -> None:
    assert PromptLookup([9, 1, 2, 1, 2], max_draft=3).propose(0.25) == (1, 2, 1)


def test_predictions_are_judged_also_when_nothing_is_guessed() -> None:
    lookup = PromptLookup([1, 2, 3] * 4, max_draft=8)
    for token in [1, 2, 3] * 10:
        lookup.push(token)
    assert lookup.rate > 0.9
    assert len(lookup.propose(0.25)) == 8
    for i in range(20):  # "1 2" goes on differently each time
        for token in (1, 2, 10 + i):
            lookup.push(token)
    assert lookup.rate < 0.25
    assert lookup.propose(0.25) == ()
    for token in [1, 2, 3] * 10:
        lookup.push(token)
    assert len(lookup.propose(0.25)) == 8


def test_a_full_batch_guesses_less_than_a_lane_alone() -> None:
    lookup = PromptLookup([1, 2, 3] * 4, max_draft=8)
    lengths = [len(lookup.propose(row_cost(n))) for n in (1, 4, 16, 64)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > 3
    assert lengths[-1] == 0


def test_what_a_grammar_forced_says_nothing_about_guesses() -> None:
    lookup = PromptLookup([1, 2, 3] * 4, max_draft=8)
    before = lookup.rate
    lookup.push(50, forced=True)
    assert lookup.rate == before


def test_a_draft_ends_before_the_end_of_a_reply_and_where_there_is_no_room() -> None:
    assert useful((1, 2, EOS, 4), frozenset({EOS}), 10) == (1, 2)
    assert useful((1, 2, 3), frozenset(), 2) == (1, 2)
    assert useful((1, 2, 3), frozenset(), -1) == ()


@pytest.mark.parametrize("speculate", [-1, 65])
def test_how_much_is_guessed_has_bounds(make: Make, speculate: int) -> None:
    with pytest.raises(ValueError, match=f"between 0 and 64, got {speculate}"):
        make().add([1, 2], speculate=speculate)
