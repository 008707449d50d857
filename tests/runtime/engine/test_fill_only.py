"""Requests that compute their prompt and generate nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.types import Delta, FinishReason

from .fakes import prompt_of

Make = Callable[..., Any]


@pytest.mark.parametrize("step_tokens", [1, 7, 512])
def test_it_ends_without_a_token_and_leaves_its_whole_prompt_in_the_tree(
    make: Make, step_tokens: int
) -> None:
    harness = make(step_tokens=step_tokens)
    prompt = prompt_of(1, 40)
    run = harness.generate(prompt, 0)
    assert not any(isinstance(event, Delta) for event in run.events)
    assert run.finished.reason is FinishReason.LENGTH
    assert run.finished.stats.completion_tokens == 0
    assert run.finished.stats.ttft_s is None
    stats = harness.core.stats()
    assert (stats.cached_slots, stats.held_slots) == (40, 0)
    assert stats.computed_tokens == 40
    follow_up = harness.generate([*prompt, 1], 6)
    assert follow_up.finished.stats.cached_tokens == 40
    assert follow_up.ids == make().generate([*prompt, 1], 6).ids


def test_doing_it_again_computes_nothing_and_takes_no_slot(make: Make) -> None:
    harness = make()
    prompt = prompt_of(2, 40)
    harness.generate(prompt, 0)
    for _ in range(3):
        again = harness.generate(prompt, 0)
        assert again.finished.reason is FinishReason.LENGTH
        assert again.finished.stats.cached_tokens == 40
    stats = harness.core.stats()
    assert (stats.computed_tokens, stats.cached_slots, stats.held_slots) == (40, 40, 0)
    assert harness.generate(prompt, 4).finished.stats.cached_tokens == 39


def test_beside_a_request_that_generates_both_share_the_prompt(make: Make) -> None:
    harness = make(step_tokens=16)
    prompt = prompt_of(3, 60)
    fill, generate = harness.add(prompt, 0), harness.add([*prompt, 5], 5)
    harness.drain()
    assert fill.finished.reason is FinishReason.LENGTH
    assert generate.ids == make().generate([*prompt, 5], 5).ids
    assert harness.core.stats().computed_tokens == 60 + 1 + 4


def test_it_may_be_as_long_as_the_pool_and_no_longer(make: Make) -> None:
    harness = make(n_slots=64)
    assert harness.generate(prompt_of(4, 64), 0).finished.reason is FinishReason.LENGTH
    with pytest.raises(RequestRejected, match="the limit is 64"):
        harness.add(prompt_of(4, 65), 0)
    with pytest.raises(RequestRejected, match="the limit is 63"):
        harness.add(prompt_of(4, 64), 1)


def test_an_abort_between_its_chunks_keeps_what_is_complete(make: Make) -> None:
    """R11."""
    harness = make(step_tokens=16)
    prompt = prompt_of(5, 60)
    run = harness.add(prompt, 0)
    harness.step()
    harness.core.abort(run.request_id)
    harness.step()
    assert run.finished.reason is FinishReason.ABORT
    assert harness.core.stats().held_slots == 0
    assert harness.generate(prompt, 6).ids == make().generate(prompt, 6).ids
