"""The whole engine against transformers' greedy tokens: chunked, batched, cold and cached.

test_model_golden.py proves the decoder alone; here the same prompts go through scheduler, radix
tree and slot allocator, twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from agentkit_runtime.core import EngineCore
from agentkit_runtime.load import build_core
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.sched.scheduler import SchedulerOptions
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    FinishReason,
    GenerateRequest,
    SamplingParams,
)
from tests.runtime.no_text import NoText

GREEDY_TOKENS = 32
MAX_STEPS = 200


@pytest.fixture(scope="module")
def core(smollm2_decoder: Decoder) -> EngineCore:
    # Chunks of 200 tokens cut every prompt of more than 200 tokens at a place that is not special.
    options = SchedulerOptions(step_tokens=200)
    return build_core(smollm2_decoder, n_slots=8192, options=options)


def test_greedy_tokens_equal_transformers_cold_and_cached(
    core: EngineCore, golden_tokens: dict[str, Any], golden_logits: Mapping[str, np.ndarray]
) -> None:
    prompts = {prompt["name"]: prompt["ids"] for prompt in golden_tokens["prompts"]}
    golden = {name: golden_logits[f"{name}.greedy"].tolist() for name in prompts}

    cold = _generate_all(core, prompts, label="cold")
    assert {name: _ids(events) for name, events in cold.items()} == golden

    warm = _generate_all(core, prompts, label="warm")
    assert {name: _ids(events) for name, events in warm.items()} == golden
    cached = {name: _finished(events).stats.cached_tokens for name, events in warm.items()}
    assert cached == {name: len(ids) - 1 for name, ids in prompts.items()}
    core.cache.check_integrity([])


def _generate_all(
    core: EngineCore, prompts: Mapping[str, list[int]], *, label: str
) -> dict[str, list[EngineEvent]]:
    events: dict[str, list[EngineEvent]] = {name: [] for name in prompts}
    for name, ids in prompts.items():
        request = GenerateRequest(
            request_id=f"{label}-{name}",
            prompt=tuple(ids),
            namespace=b"golden",
            text=NoText(),
            sampling=SamplingParams(max_tokens=GREEDY_TOKENS),
        )
        core.add(request, events[name].append)
    for _ in range(MAX_STEPS):
        if core.idle:
            break
        core.step()
    assert core.idle, f"the engine did not finish within {MAX_STEPS} steps"
    assert {_finished(of_prompt).reason for of_prompt in events.values()} == {FinishReason.LENGTH}
    return events


def _finished(events: list[EngineEvent]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished), last
    return last


def _ids(events: list[EngineEvent]) -> list[int]:
    return [token for event in events if isinstance(event, Delta) for token in event.token_ids]
