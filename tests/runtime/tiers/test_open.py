"""Tiers over a real pool: measured, opened, and exact in every format."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.tiers import measure
from agentkit_runtime.kv.tiers.base import Block
from agentkit_runtime.kv.tiers.open import TierOptions, open_tiers
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from agentkit_runtime.load import EngineOptions
from tests.runtime.tiers.support import arrive, names_of

SLOW_MODEL = 10**13
"""Weights of a model that takes seconds for a token here."""


def pool(kv_format: KvFormat = KvFormat.FLOAT32) -> KvStorage:
    return KvStorage(n_layers=2, n_slots=256, n_kv_heads=2, head_dim=32, kv_format=kv_format)


def opened(
    storage: KvStorage, folder: Path | None, *, identity: str = "model", weights: int = SLOW_MODEL
) -> HostAndDiskTiers:
    return open_tiers(
        storage,
        TierOptions(host_bytes=1 << 20, disk_folder=folder, disk_bytes=1 << 20),
        identity=identity,
        weights=weights,
        compute_dtype=torch.float32,
    )


def fill(storage: KvStorage, n_tokens: int) -> torch.Tensor:
    """Write something into the first slots; returns their rows."""
    generator = torch.Generator().manual_seed(0)
    for index in range(2):
        k, v = torch.randn((2, n_tokens, 2, 32), generator=generator)
        storage.layer(index).write(torch.arange(n_tokens), k, v)
    return storage.export([Extent(0, n_tokens)])


@pytest.mark.parametrize("kv_format", list(KvFormat))
def test_rows_of_every_format_come_back_bit_by_bit_also_from_disk(
    tmp_path: Path, kv_format: KvFormat
) -> None:
    names = names_of(b"ns", b"abc")
    first = pool(kv_format)
    tiers = opened(first, tmp_path)
    rows = fill(first, 48)
    tiers.save([Block(b"ns", name, (Extent(16 * i, 16),), i) for i, name in enumerate(names)])
    tiers.close()

    second = pool(kv_format)
    tiers = opened(second, tmp_path)
    assert tiers.held(names) == 3
    fetch = tiers.fetch(names)
    arrive(tiers, fetch)
    fetch.load([Extent(100, 40), Extent(200, 8)])
    fetch.close()
    assert torch.equal(second.export([Extent(100, 40), Extent(200, 8)]), rows)
    tiers.close()


def test_another_model_or_format_finds_nothing(tmp_path: Path) -> None:
    names = names_of(b"ns", b"a")
    first = pool()
    tiers = opened(first, tmp_path)
    fill(first, 16)
    tiers.save([Block(b"ns", names[0], (Extent(0, 16),))])
    tiers.close()
    for other, identity in [(pool(), "other"), (pool(KvFormat.INT8), "model")]:
        tiers = opened(other, tmp_path, identity=identity)
        assert tiers.held(names) == 0
        tiers.close()
    tiers = opened(pool(), tmp_path)
    assert tiers.held(names) == 1
    tiers.close()


def test_a_model_that_computes_faster_than_memory_fetches_nothing() -> None:
    storage = pool()
    tiers = opened(storage, None, weights=1)
    fill(storage, 16)
    names = names_of(b"ns", b"a")
    tiers.save([Block(b"ns", names[0], (Extent(0, 16),))])
    assert tiers.held(names) == 0
    assert tiers.stats().declined == 1
    tiers.close()


def test_a_folder_in_use_is_done_without_and_host_memory_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = opened(pool(), tmp_path), opened(pool(), tmp_path)
    assert "in use" in caplog.text
    assert second.stats().disk_blocks == 0
    second.close()
    first.close()


def test_too_little_host_memory_leaves_the_folder_to_others(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not hold one block"):
        open_tiers(
            pool(),
            TierOptions(host_bytes=100, disk_folder=tmp_path),
            identity="model",
            weights=1,
            compute_dtype=torch.float32,
        )
    tiers = opened(pool(), tmp_path)
    assert tiers._disk is not None
    tiers.close()


def test_a_disk_bound_under_one_block_is_refused_and_leaves_the_folder_alone(
    tmp_path: Path,
) -> None:
    options = TierOptions(host_bytes=1 << 20, disk_folder=tmp_path / "kv", disk_bytes=100)
    with pytest.raises(ValueError, match="disk_bytes of 100 do not hold the file of one block"):
        open_tiers(pool(), options, identity="model", weights=1, compute_dtype=torch.float32)
    assert not list(tmp_path.iterdir())


def test_more_host_memory_than_there_is_is_refused_in_words() -> None:
    options = TierOptions(host_bytes=1 << 60)
    with pytest.raises(RuntimeFault, match="GB of host memory for KV cannot be had: take less"):
        open_tiers(pool(), options, identity="model", weights=1, compute_dtype=torch.float32)


@pytest.mark.parametrize("field", ["host_bytes", "disk_bytes"])
def test_sizes_must_be_positive(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least 1, got 0"):
        TierOptions(**{"host_bytes": 1, field: 0})


def ticking(step_s: float):  # type: ignore[no-untyped-def]
    """A timer that moves by so much at each look."""
    now = [0.0]

    def timer() -> float:
        now[0] += step_s
        return now[0]

    return timer


def test_speeds_are_bytes_and_operations_over_seconds(tmp_path: Path) -> None:
    storage = pool()
    assert measure.host_speed(storage, 256, ticking(0.5)) == 256 * storage.bytes_per_token / 0.5
    assert measure.disk_speed(tmp_path, ticking(0.5)) == (4 << 20) / 0.5
    flops = measure.flops(torch.device("cpu"), torch.float32, ticking(0.5))
    assert flops == 2 * 256 * 1024**2 / 0.5
    assert not list(tmp_path.iterdir())


def test_a_disk_that_cannot_be_measured_is_taken_to_be_slow_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "nowhere"
    assert measure.disk_speed(folder, ticking(0.5)) == measure.SLOWEST_DISK
    assert f"{folder} cannot be tried out (No such file" in caplog.text


def test_an_engine_keeps_nothing_beside_the_pool_unless_it_is_asked_to() -> None:
    assert EngineOptions().tiers is None
    assert EngineOptions(host_cache_bytes=5).tiers == TierOptions(host_bytes=5)
    only_disk = EngineOptions(disk_cache=Path("kv"), disk_cache_bytes=7).tiers
    assert only_disk == TierOptions(host_bytes=1 << 30, disk_folder=Path("kv"), disk_bytes=7)
    with pytest.raises(ValueError, match=r"host_cache_bytes must be between 1 and [0-9]+, got 0"):
        EngineOptions(host_cache_bytes=0)
