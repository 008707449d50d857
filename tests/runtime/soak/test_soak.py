"""Everything at once, in every format and with both kinds of kernels: see `bench.soak`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import TokenLogprob
from bench.soak import SoakOptions, soak
from bench.soak_oracle import Oracle
from bench.soak_traffic import Even
from bench.tiny import tiny_decoder

REQUESTS = 200


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("kv_format", "backend", "seed"),
    [(kv_format, "device", seed) for seed, kv_format in enumerate(KvFormat)]
    + [(KvFormat.FLOAT32, "reference", 100), (KvFormat.INT8, "reference", 101)],
)
def test_nothing_differs_from_an_uncached_run_and_nothing_leaks(
    tmp_path: Path, kv_format: KvFormat, backend: str, seed: int
) -> None:
    report = soak(
        SoakOptions(requests=REQUESTS, kv_format=kv_format, backend=backend, seed=seed), tmp_path
    )
    # A soak in which nothing happened would prove nothing.
    assert report.requests >= REQUESTS
    assert report.hit_tokens > 1_000
    assert report.restored_tokens > 100
    assert report.disk_blocks > 0
    assert report.preemptions > 0
    assert report.accepted_tokens > 0
    assert {"length", "abort"} <= set(report.ended)


@pytest.mark.parametrize(("kv_format", "seed"), [(KvFormat.FLOAT32, 200), (KvFormat.INT8, 201)])
def test_faults_in_a_pool_for_one_request_hurt_nobody_else(
    tmp_path: Path, kv_format: KvFormat, seed: int
) -> None:
    """Steps of five tokens, two lanes, 64 slots; steps fail, or give no numbers."""
    report = soak(
        SoakOptions(
            requests=150,
            kv_format=kv_format,
            seed=seed,
            n_slots=64,
            max_prompt=40,
            fault_rate=0.02,
            scheduler=SchedulerOptions(step_tokens=5, max_lanes=2, reserve_tokens=0),
        ),
        tmp_path,
    )
    assert min(report.faults.values()) > 0
    assert report.preemptions > 0
    assert report.restored_tokens > 0
    assert report.ended["error"] < report.ended["length"]


def test_the_oracle_sees_wrong_tokens_and_wrong_probabilities() -> None:
    decoder = tiny_decoder()
    oracle = Oracle(decoder, KvFormat.FLOAT32)
    prompt = [5, 3, 7, 11, 2]
    right = next(t for t in range(97) if oracle.check(prompt, [t]) is None)
    assert "greedy decoding takes" in (oracle.check(prompt, [(right + 1) % 97]) or "")
    odd = 2 * (right // 2) + 1
    with pytest.raises(AssertionError, match="not allowed"):
        oracle.check(prompt, [odd], grammar=Even())
    said = TokenLogprob(token_id=right, logprob=0.1)
    assert "was said to have" in (oracle.check(prompt, [right], logprobs=[said]) or "")


def test_one_seed_is_one_run(tmp_path: Path) -> None:
    reports = [
        soak(SoakOptions(requests=40, seed=7), tmp_path / name) for name in ("first", "second")
    ]
    assert len({(r.steps, r.hit_tokens, r.restored_tokens, r.disk_blocks) for r in reports}) == 1


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="backend must be one of"):
        soak(SoakOptions(backend="magic"), tmp_path)
