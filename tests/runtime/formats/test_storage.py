"""The pool: where slots lie, how many bytes they take, how they leave and come back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat, bytes_per_token, token_bytes
from agentkit_runtime.kv.pool import FloatLayer, KvStorage

FORMATS = list(KvFormat)


def pool(kv_format: KvFormat | None = None, n_slots: int = 64, head_dim: int = 64) -> KvStorage:
    return KvStorage(
        n_layers=3, n_slots=n_slots, n_kv_heads=2, head_dim=head_dim, kv_format=kv_format
    )


def filled(kv_format: KvFormat, head_dim: int = 64, seed: int = 0) -> KvStorage:
    generator = torch.Generator().manual_seed(seed)
    storage = pool(kv_format, head_dim=head_dim)
    for index in range(3):
        k, v = torch.randn(2, 64, 2, head_dim, generator=generator) * 3
        storage.layer(index).write(torch.arange(64), k, v)
    return storage


def read_all(storage: KvStorage) -> torch.Tensor:
    """[n_layers, 2, n_slots, n_kv_heads, head_dim]"""
    layers = [storage.layer(i).read(0, storage.n_slots) for i in range(3)]
    return torch.stack([torch.stack(pair) for pair in layers])


def test_an_extent_of_plain_numbers_is_a_view_of_the_layer() -> None:
    storage = pool()
    layer = storage.layer(1)
    assert isinstance(layer, FloatLayer)
    layer.keys[5:7] = 7.0
    layer.values[5:7] = 9.0
    k, v = layer.read(5, 2)
    assert k[:, 0].is_contiguous()  # on CPU a head's slots touch
    assert k.data_ptr() == storage.keys[1, 5].data_ptr()
    assert v.data_ptr() == storage.values[1, 5].data_ptr()
    assert torch.equal(storage.keys[1, 5:7], torch.full((2, 2, 64), 7.0))
    assert torch.equal(storage.values[1, 5:7], torch.full((2, 2, 64), 9.0))


@pytest.mark.parametrize(("dtype", "expected"), [(torch.float32, 46_080), (torch.bfloat16, 23_040)])
def test_bytes_of_a_token_count_keys_and_values_of_all_layers(
    dtype: torch.dtype, expected: int
) -> None:
    """SmolLM2-135M: 30 layers, 3 KV heads of 64."""
    storage = KvStorage(n_layers=30, n_slots=2, n_kv_heads=3, head_dim=64, compute_dtype=dtype)
    assert storage.bytes_per_token == expected
    assert storage.keys.dtype is dtype
    assert storage.keys.nbytes + storage.values.nbytes == 2 * expected
    assert storage.n_slots == 2


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("head_dim", [2, 64, 80, 128])
def test_the_arithmetic_says_what_the_tensors_take(kv_format: KvFormat, head_dim: int) -> None:
    storage = pool(kv_format, head_dim=head_dim)
    assert storage.format is kv_format
    said = bytes_per_token(kv_format, n_layers=3, n_kv_heads=2, head_dim=head_dim)
    assert storage.bytes_per_token == said
    assert sum(plane.nbytes for plane in storage.planes) == 64 * said


@pytest.mark.parametrize(
    ("kv_format", "codes", "scales"),
    [
        (KvFormat.FP8_E4M3, 1 / 2, 1 / 16),
        (KvFormat.FP8_E5M2, 1 / 2, 1 / 16),
        (KvFormat.INT8, 1 / 2, 1 / 64),
        (KvFormat.INT4, 1 / 4, 1 / 8),
    ],
)
def test_a_token_takes_half_or_a_quarter_of_float16_and_its_scales(
    kv_format: KvFormat, codes: float, scales: float
) -> None:
    half = bytes_per_token(KvFormat.FLOAT16, n_layers=30, n_kv_heads=3, head_dim=64)
    own = token_bytes(kv_format, n_layers=30, n_kv_heads=3, head_dim=64)
    assert (own.codes / half, own.scales / half) == (codes, scales)


def test_a_size_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="must all be at least 1"):
        pool(n_slots=0)


def test_a_compute_dtype_that_no_format_stores_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no KV format stores torch\.float64"):
        KvStorage(n_layers=1, n_slots=1, n_kv_heads=1, head_dim=2, compute_dtype=torch.float64)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_rows_come_back_byte_for_byte_in_other_slots(kv_format: KvFormat) -> None:
    source, target = filled(kv_format), filled(kv_format, seed=1)
    untouched = read_all(target)[:, :, 20:]
    rows = source.export([Extent(40, 7), Extent(3, 9)])
    assert rows.dtype is torch.uint8
    assert rows.shape == (16, source.bytes_per_token)
    target.load([Extent(0, 1), Extent(5, 15)], rows)
    assert torch.equal(target.export([Extent(0, 1), Extent(5, 15)]), rows)
    sent, received = read_all(source), read_all(target)
    assert torch.equal(received[:, :, 0], sent[:, :, 40])
    assert torch.equal(received[:, :, 5:11], sent[:, :, 41:47])
    assert torch.equal(received[:, :, 11:20], sent[:, :, 3:12])
    assert torch.equal(received[:, :, 20:], untouched)


def test_a_row_is_all_of_one_token() -> None:
    storage = filled(KvFormat.INT4)
    whole = storage.export([Extent(10, 4)])
    assert torch.equal(storage.export([Extent(12, 1)])[0], whole[2])


def test_rows_of_another_size_are_refused() -> None:
    storage = filled(KvFormat.INT8)
    rows = storage.export([Extent(0, 2)])
    with pytest.raises(ValueError, match=r"uint8 of shape \(3, "):
        storage.load([Extent(0, 3)], rows)
    with pytest.raises(ValueError, match=r"got torch\.int8"):
        storage.load([Extent(0, 2)], rows.view(torch.int8))


def test_a_pool_of_codes_has_no_plain_keys() -> None:
    with pytest.raises(ValueError, match="no plain keys and values"):
        _ = pool(KvFormat.INT8).keys


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_big_pool_takes_no_memory_before_it_is_used() -> None:
    def resident_bytes() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096

    before = resident_bytes()
    storage = KvStorage(n_layers=4, n_slots=65_536, n_kv_heads=8, head_dim=64)
    assert storage.keys.nbytes + storage.values.nbytes == 1 << 30
    assert resident_bytes() - before < 1 << 27
