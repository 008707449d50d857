"""Everything at once, in every format and with both kinds of kernels: see `bench.soak`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agentkit_runtime.kv.format import KvFormat
from bench.soak import SoakOptions, soak

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


def test_one_seed_is_one_run(tmp_path: Path) -> None:
    reports = [
        soak(SoakOptions(requests=40, seed=7), tmp_path / name) for name in ("first", "second")
    ]
    assert len({(r.steps, r.hit_tokens, r.restored_tokens, r.disk_blocks) for r in reports}) == 1


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="backend must be one of"):
        soak(SoakOptions(backend="magic"), tmp_path)
