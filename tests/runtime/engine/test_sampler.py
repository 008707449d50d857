"""Choosing the next token."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.model.sampler import Sampler
from agentkit_runtime.types import SamplingParams

LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.5, 0.0, float("-inf"), 1.9])


def draws(n: int, logits: torch.Tensor = LOGITS, **params: float | int) -> Counter[int]:
    sampler = Sampler(SamplingParams(seed=1, **params))  # type: ignore[arg-type]
    return Counter(sampler.choose(logits) for _ in range(n))


def test_greedy_takes_the_most_likely_token_and_of_equal_ones_the_first() -> None:
    assert draws(3) == {1: 3}
    assert draws(3, torch.tensor([1.0, 5.0, 5.0])) == {1: 3}


def test_tokens_are_drawn_as_often_as_their_probabilities_say() -> None:
    n = 20_000
    seen = draws(n, temperature=0.8)
    expected = (LOGITS / 0.8).softmax(dim=0)
    for token, probability in enumerate(expected.tolist()):
        assert seen[token] / n == pytest.approx(probability, abs=0.015)
    assert seen[5] == 0


def test_top_k_and_top_p_keep_the_most_likely_tokens_only() -> None:
    assert set(draws(500, temperature=3.0, top_k=2)) == {1, 6}
    # The two most likely have 0.65 of the probability, the three most likely 0.86.
    assert set(draws(500, temperature=1.0, top_p=0.62)) == {1, 6}
    assert set(draws(500, temperature=1.0, top_p=0.67)) == {1, 6, 3}
    assert set(draws(500, temperature=1.0, top_p=1e-9)) == {1}
    assert set(draws(500, temperature=3.0, top_k=3, top_p=0.5)) == {1, 6}
    assert set(draws(500, torch.ones(6), temperature=1.0, top_k=2)) == {0, 1}


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    top_p=st.floats(0.01, 0.99),
    temperature=st.floats(0.1, 20.0),
)
def test_the_nucleus_is_the_one_that_a_full_sort_finds(
    seed: int, top_p: float, temperature: float
) -> None:
    logits = torch.randn(300, generator=torch.Generator().manual_seed(seed)) * 3
    order = (logits / temperature).double().softmax(dim=0).sort(descending=True)
    before = order.values.cumsum(0) - order.values
    allowed = set(order.indices[before < top_p + 1e-5].tolist())
    sampler = Sampler(SamplingParams(temperature=temperature, top_p=top_p, seed=seed))
    assert {sampler.choose(logits) for _ in range(30)} <= allowed


def test_a_seed_gives_the_same_tokens_and_one_number_is_drawn_for_each() -> None:
    params = SamplingParams(temperature=1.0, seed=-5)
    first, second = Sampler(params), Sampler(params)
    flat = torch.zeros(1000)
    assert [first.choose(flat) for _ in range(20)] == [second.choose(flat) for _ in range(20)]
    # Whatever is drawn from, the random state moves by one: the next draws are the same again.
    first.choose(LOGITS)
    second.choose(flat)
    assert first.choose(flat) == second.choose(flat)


def test_rounding_does_not_exchange_two_tokens_that_are_almost_equal() -> None:
    """Drawing from a sorted list would: which of the two comes first depends on the last bit."""
    logits = torch.tensor([1.0, 2.0, 2.0 + 1e-6, 0.0])
    nudged = torch.tensor([1.0, 2.0 + 1e-6, 2.0, 0.0])
    for seed in range(50):
        params = SamplingParams(temperature=1.0, top_p=0.99, seed=seed)
        assert Sampler(params).choose(logits) == Sampler(params).choose(nudged)


@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-20])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    assert draws(20, temperature=temperature, top_p=0.9) == {1: 20}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_refused(bad: float, temperature: float) -> None:
    sampler = Sampler(SamplingParams(temperature=temperature, seed=1))
    with pytest.raises(ValueError, match="no finite logit"):
        sampler.choose(torch.tensor([0.0, bad, 1.0]))
    with pytest.raises(ValueError, match="no finite logit"):
        sampler.choose(torch.full((4,), float("-inf")))


def chosen(n: int, prompt: tuple[int, ...] = (), **params: object) -> list[int]:
    """The first `n` tokens of a greedy sequence whose logits never change by themselves."""
    sampler = Sampler(SamplingParams(**params), prompt)  # type: ignore[arg-type]
    tokens = []
    for _ in range(n):
        tokens.append(sampler.choose(LOGITS.clone()))
        sampler.accept(tokens[-1])
    return tokens


def test_a_presence_penalty_counts_once_and_a_frequency_penalty_each_time() -> None:
    # 2.0, 1.9 and 1.5 are the largest: tokens 1, 6, 3.
    assert chosen(4, presence_penalty=0.2) == [1, 6, 1, 1]
    assert chosen(4, frequency_penalty=0.2) == [1, 6, 1, 6]


def test_a_negative_penalty_rewards() -> None:
    assert chosen(3, presence_penalty=-0.5) == [1, 1, 1]


def test_a_repetition_penalty_counts_the_prompt_too() -> None:
    assert chosen(1, repetition_penalty=1.1) == [1]
    assert chosen(1, prompt=(1,), repetition_penalty=1.1) == [6]

    below_zero = Sampler(SamplingParams(repetition_penalty=1.1), (0,))
    assert below_zero.choose(torch.tensor([-1.0, -1.05])) == 1


def test_a_bias_is_added_and_lifts_no_ban() -> None:
    assert chosen(1, logit_bias=((2, 10.0),)) == [2]
    assert chosen(1, logit_bias=((1, -100.0), (5, 100.0))) == [6]


def test_min_p_drops_what_is_far_less_likely_than_the_likeliest() -> None:
    # Beside token 1 only 6 (0.90) and 3 (0.61) have half its probability.
    assert set(draws(500, temperature=1.0, min_p=0.5)) == {1, 3, 6}


def test_what_changes_no_logit_takes_the_short_way() -> None:
    assert Sampler(SamplingParams()).takes_best
    assert not Sampler(SamplingParams(presence_penalty=0.1)).takes_best
    assert not Sampler(SamplingParams(logit_bias=((0, 1.0),))).takes_best
