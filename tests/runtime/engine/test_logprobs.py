"""Log-probabilities of generated tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from agentkit_runtime.types import Delta, SamplingParams

from .fakes import Even, prompt_of

Make = Callable[..., Any]


class Rows(Even):
    """Allows every token and keeps the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[torch.Tensor] = []

    def apply(self, logits: torch.Tensor) -> None:
        self.rows.append(logits.clone())

    def accept(self, token_id: int) -> None:
        pass


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_they_are_the_log_softmax_of_what_the_model_said(make: Make, temperature: float) -> None:
    seen = Rows()
    sampling = SamplingParams(max_tokens=6, temperature=temperature, seed=1, logprobs=3, top_k=5)
    run = make().generate(prompt_of(1, 20), sampling=sampling, grammar=seen)
    expected = torch.stack(seen.rows).double().log_softmax(dim=-1)
    assert [p.token_id for p in run.logprobs] == run.ids
    for entry, row in zip(run.logprobs, expected, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=1e-4)
        values, ids = row.topk(3)
        assert [i for i, _ in entry.top] == ids.tolist()
        assert [p for _, p in entry.top] == pytest.approx(values.tolist(), abs=1e-4)


def test_a_grammar_does_not_change_them_and_its_forced_tokens_have_none(make: Make) -> None:
    sampling = SamplingParams(max_tokens=30, logprobs=9, temperature=50.0, seed=1)
    run = make().generate(prompt_of(2, 20), sampling=sampling, grammar=Even())
    assert [p.token_id for p in run.logprobs] == run.ids
    chosen = [p for p in run.logprobs if p.top]
    assert any(token % 2 for p in chosen for token, _ in p.top), "forbidden, but not unlikely"
    forced = [p for p in run.logprobs if not p.top]
    assert forced
    assert {p.logprob for p in forced} == {0.0}


def test_none_are_given_unasked_and_zero_alternatives_means_the_token_alone(make: Make) -> None:
    silent = make().generate(prompt_of(3, 20), 4)
    assert silent.logprobs == []
    alone = make().generate(prompt_of(3, 20), sampling=SamplingParams(max_tokens=4, logprobs=0))
    assert [p.top for p in alone.logprobs] == [()] * 4
    assert alone.ids == silent.ids
    for event in alone.events:
        if isinstance(event, Delta):
            assert len(event.logprobs) == len(event.token_ids)
