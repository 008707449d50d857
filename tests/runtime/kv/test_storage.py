from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.pool import KvStorage, bytes_per_token


def test_an_extent_is_a_view_of_the_layer() -> None:
    storage = KvStorage(n_layers=3, n_slots=8, n_kv_heads=2, head_dim=4)
    extent = Extent(5, 2)
    layer = storage.layer(1)
    keys, values = layer.keys, layer.values
    keys[extent.start : extent.end] = 7.0
    values[extent.start : extent.end] = 9.0
    assert keys.shape == values.shape == (8, 2, 4)
    assert keys[extent.start : extent.end].is_contiguous()
    assert torch.equal(storage.keys[1, 5:7], torch.full((2, 2, 4), 7.0))
    assert torch.equal(storage.values[1, 5:7], torch.full((2, 2, 4), 9.0))


@pytest.mark.parametrize(("dtype", "expected"), [(torch.float32, 46_080), (torch.bfloat16, 23_040)])
def test_bytes_of_a_token_count_keys_and_values_of_all_layers(
    dtype: torch.dtype, expected: int
) -> None:
    """SmolLM2-135M: 30 layers, 3 KV heads of 64."""
    storage = KvStorage(n_layers=30, n_slots=2, n_kv_heads=3, head_dim=64, dtype=dtype)
    assert storage.bytes_per_token == expected
    assert bytes_per_token(n_layers=30, n_kv_heads=3, head_dim=64, dtype=dtype) == expected
    assert storage.keys.dtype is dtype
    assert storage.keys.nbytes + storage.values.nbytes == 2 * expected
    assert storage.n_slots == 2


def test_a_size_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="must all be at least 1"):
        KvStorage(n_layers=1, n_slots=0, n_kv_heads=1, head_dim=1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_big_pool_takes_no_memory_before_it_is_used() -> None:
    def resident_bytes() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096

    before = resident_bytes()
    storage = KvStorage(n_layers=4, n_slots=65_536, n_kv_heads=8, head_dim=64)
    assert storage.keys.nbytes + storage.values.nbytes == 1 << 30
    assert resident_bytes() - before < 1 << 27
