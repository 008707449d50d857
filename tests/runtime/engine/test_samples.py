"""Several samples of one prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_runtime.generation.samples import samples
from agentkit_runtime.types import GenerateRequest, SamplingParams

from .conftest import IdText
from .fakes import Even, prompt_of

Make = Callable[..., Any]


def request_of(prompt: list[int], **sampling: Any) -> GenerateRequest:
    return GenerateRequest(
        request_id="r",
        prompt=tuple(prompt),
        namespace=b"ns",
        text=IdText(),
        sampling=SamplingParams(max_tokens=12, **sampling),
    )


@pytest.mark.parametrize("step_tokens", [1, 5, 16, 512])
def test_the_prompt_is_computed_once_and_each_sample_is_what_it_would_be_alone(
    make: Make, step_tokens: int
) -> None:
    prompt = prompt_of(1, 50)
    harness = make(step_tokens=step_tokens)
    requests = samples(request_of(prompt, temperature=5.0, seed=7), 4, text=IdText)
    runs = [harness.submit(request) for request in requests]
    harness.drain()
    # The prompt, its last token once more for each fork, and what was generated but for the ends.
    assert harness.core.stats().computed_tokens == 50 + 3 + 4 * 11
    assert len({tuple(run.ids) for run in runs}) == 4
    for i, run in enumerate(runs):
        alone = SamplingParams(max_tokens=12, temperature=5.0, seed=7 + i)
        assert run.ids == make().generate(prompt, sampling=alone).ids


def test_each_has_an_id_a_text_and_a_grammar_of_its_own() -> None:
    requests = samples(request_of([1, 2]), 3, text=IdText, grammar=Even)
    assert [r.request_id for r in requests] == ["r-0", "r-1", "r-2"]
    assert len({id(r.text) for r in requests}) == len({id(r.grammar) for r in requests}) == 3
    assert {r.sampling.seed for r in requests} == {None}
    with pytest.raises(ValueError, match="at least 1, got 0"):
        samples(request_of([1]), 0, text=IdText)
