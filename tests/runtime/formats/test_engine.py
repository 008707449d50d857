"""In every format: what comes out does not depend on what was cached, chunked or batched."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
import torch

from agentkit_runtime.core import EngineCore
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.load import build_core
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.sched.scheduler import SchedulerOptions
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    GenerateRequest,
    SamplingParams,
)
from bench.tiny import Silent
from tests.runtime.formats.tiny import CONFIG, logits_at_once, tiny_decoder

FORMATS = list(KvFormat)
N_OUT = 6
TIE = 0.02
"""Of the spread of a row's logits. Codes round: a last bit of a product that differs between two
batches can move a number by a whole step, and the logits a little."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return tiny_decoder()


def run(core: EngineCore, prompts: Sequence[Sequence[int]], first: int) -> list[list[int]]:
    """Greedy replies of prompts that run at the same time; cached tokens must be reported."""
    events: list[list[EngineEvent]] = [[] for _ in prompts]
    for index, (prompt, seen) in enumerate(zip(prompts, events, strict=True)):
        request = GenerateRequest(
            request_id=f"r{first + index}",
            prompt=tuple(prompt),
            namespace=b"n",
            text=Silent(),
            sampling=SamplingParams(max_tokens=N_OUT),
        )
        core.check(request)
        core.add(request, seen.append)
    while not core.idle:
        core.step()
    for seen in events:
        last = seen[-1]
        assert isinstance(last, Finished)
        assert last.error is None
    return [[i for e in seen if isinstance(e, Delta) for i in e.token_ids] for seen in events]


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_cached_equals_uncached(decoder: Decoder, kv_format: KvFormat, seed: int) -> None:
    rng = random.Random(seed)
    core = build_core(
        decoder,
        n_slots=300,
        kv_format=kv_format,
        options=SchedulerOptions(step_tokens=rng.choice([7, 16, 40])),
    )
    known: list[list[int]] = [[rng.randrange(CONFIG.vocab) for _ in range(60)]]
    n = 0
    for _ in range(6):
        prompts = []
        for _ in range(rng.randint(1, 4)):
            root = rng.choice(known)
            tail = [rng.randrange(CONFIG.vocab) for _ in range(rng.randint(1, 17))]
            prompts.append(root[: rng.randint(1, len(root))] + tail)
        for prompt, reply in zip(prompts, run(core, prompts, n), strict=True):
            known.append((prompt + reply)[:120])
            assert_greedy(decoder, kv_format, prompt, reply)
        n += len(prompts)
    assert core.stats().hit_tokens > 100


def assert_greedy(
    decoder: Decoder, kv_format: KvFormat, prompt: list[int], reply: list[int]
) -> None:
    """Each token of the reply is the best there, or ties with it, when nothing is cached."""
    assert len(reply) == N_OUT
    logits = logits_at_once(decoder, kv_format, prompt + reply[:-1])[len(prompt) - 1 :]
    best = logits.max(dim=-1)
    chosen = logits.gather(1, torch.tensor(reply)[:, None])[:, 0]
    assert ((best.values - chosen) <= TIE * logits.std(dim=-1)).all(), (reply, best.indices)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_coded_kv_changes_the_logits_only_a_little(decoder: Decoder, kv_format: KvFormat) -> None:
    """Also the proof that the format is used at all."""
    ids = [random.Random(3).randrange(CONFIG.vocab) for _ in range(100)]
    exact = logits_at_once(decoder, KvFormat.FLOAT32, ids)
    found = logits_at_once(decoder, kv_format, ids)
    share = float((found - exact).std() / exact.std())
    assert share < 0.2
    assert (share > 0) is (kv_format is not KvFormat.FLOAT32)
