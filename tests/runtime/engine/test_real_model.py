"""Cached equals uncached on the bundled model, with other sequences in the batch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agentkit_runtime.core import EngineCore
from agentkit_runtime.load import EngineOptions, load_core
from agentkit_runtime.loading import ModelFiles
from agentkit_runtime.sched.scheduler import SchedulerOptions
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    GenerateRequest,
    SamplingParams,
)
from tests.runtime.engine.fakes import Recorder
from tests.runtime.no_text import NoText


@pytest.fixture(scope="module")
def core(smollm2_gguf: Path) -> EngineCore:
    files = ModelFiles(weights=(smollm2_gguf,), tokenizer=smollm2_gguf, label="smollm2")
    options = EngineOptions(max_slots=4000, scheduler=SchedulerOptions(step_tokens=64))
    return load_core(files, options)[0]


def submit(core: EngineCore, name: str, prompt: list[int], n: int) -> tuple[Recorder, list[int]]:
    recorder, ids = Recorder(), list[int]()

    def hear(event: EngineEvent) -> None:
        if isinstance(event, Delta):
            ids.extend(event.token_ids)

    request = GenerateRequest(
        request_id=name,
        prompt=tuple(prompt),
        namespace=b"test",
        text=NoText(),
        sampling=SamplingParams(max_tokens=n),
        grammar=recorder,
    )
    core.check(request)
    core.add(request, hear)
    return recorder, ids


def drain(core: EngineCore) -> None:
    while not core.idle:
        core.step()
        leases = [s.lease for s in core.scheduler.running if s.lease is not None]
        core.cache.check_integrity(leases)


@pytest.mark.parametrize("seed", range(4))
def test_any_split_into_cached_and_new_gives_the_uncached_logits(
    core: EngineCore, seed: int
) -> None:
    rng = random.Random(seed)
    prompt = [rng.randrange(100, 49_000) for _ in range(rng.randrange(60, 150))]
    core.cache.clear()
    reference, expected = submit(core, "reference", prompt, 6)
    drain(core)

    core.cache.clear()
    cut = rng.randrange(1, len(prompt))
    submit(core, "front", prompt[:cut], 1)
    drain(core)
    for i in range(3):  # neighbours that share some of it, or nothing
        shared = prompt[: rng.randrange(len(prompt))]
        submit(core, f"neighbour{i}", [*shared, *rng.choices(range(100, 49_000), k=5 + i)], 4)
    seen, got = submit(core, "again", prompt, 6)
    drain(core)

    assert got == expected
    for ours, theirs in zip(seen.rows, reference.rows, strict=True):
        assert float((ours - theirs).abs().max()) < 1e-3
    assert core.stats().held_slots == 0
