"""Integer weights: what the codes stand for is what is computed with, for any number of rows."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.loading.gguf_blocks import BLOCK_BYTES, blocks_from_gguf
from agentkit_runtime.model.blocks import GROUP, BlockMatrix, join_rows, quantise


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("type_name", BLOCK_BYTES)
def test_blocks_of_a_gguf_file_stand_for_exactly_its_numbers(type_name: str) -> None:
    """No requantisation: the very floats that ggml's own decoding gives, bit by bit."""
    weight = random(6, 96).numpy()
    quant_type = gguf.GGMLQuantizationType[type_name]
    raw = gguf.quantize(weight, quant_type)
    blocks = blocks_from_gguf(raw.reshape(-1), type_name, (6, 96))
    expected = torch.from_numpy(gguf.dequantize(raw, quant_type))
    assert torch.equal(blocks.effective(), expected)
    assert torch.equal(BlockMatrix(blocks).rows(torch.arange(6)), expected)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("n_in", [64, 40, 33])
@pytest.mark.parametrize("n_rows", [1, 2, 7, 64])
def test_a_product_is_that_of_the_effective_weights(bits: int, n_in: int, n_rows: int) -> None:
    """Also where rows do not divide into groups, and where a group has no even halves."""
    blocks = quantise(random(24, n_in), bits)
    bias, x = random(24, seed=2), random(n_rows, n_in, seed=1)
    matrix = BlockMatrix(blocks, bias)
    expected = torch.nn.functional.linear(x, blocks.effective(), bias)
    assert matrix.shape == (24, n_in)
    assert torch.allclose(matrix(x), expected, atol=1e-5)


def test_a_matrix_larger_than_one_piece_is_decoded_piece_by_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentkit_runtime.model.blocks._BLOCK_ELEMENTS", 5 * 64)
    blocks = quantise(random(24, 64), 4)
    x = random(3, 64, seed=1)
    assert torch.allclose(BlockMatrix(blocks)(x), x @ blocks.effective().t(), atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from([4, 8]),
    scale=st.sampled_from([0.0, 1e-7, 1e-3, 1.0, 300.0]),
    offset=st.sampled_from([0.0, -2.0, 5.0]),
    seed=st.integers(0, 1000),
)
def test_rounding_stays_within_a_step(bits: int, scale: float, offset: float, seed: int) -> None:
    """R28: constant and zero groups, tiny and large scales; never a NaN, never out of range."""
    weight = random(4, 2 * GROUP, seed=seed) * scale + offset
    blocks = quantise(weight, bits)
    low, high = (0, 15) if bits == 4 else (-128, 127)
    assert low <= int(blocks.codes.min()) <= int(blocks.codes.max()) <= high
    step = blocks.scale.float().repeat_interleave(GROUP, dim=1)
    # Scale and minimum are float16: 11 bits, and nothing below 2^-24.
    half = 2.0**-10 * (weight.abs().max() + step * high) + 2.0**-24 * (high + 2)
    assert bool(((blocks.effective() - weight).abs() <= 0.5 * step + half).all())


def test_codes_of_four_bits_take_half_a_byte_each() -> None:
    weight = random(64, 128)
    assert BlockMatrix(quantise(weight, 4)).n_bytes == 64 * 128 * 5 // 8
    assert BlockMatrix(quantise(weight, 8)).n_bytes == 64 * 128 * 17 // 16


def test_joined_matrices_keep_their_numbers() -> None:
    """A file may store V with more bits than Q and K; the three are one product."""
    parts = [quantise(random(8, 64, seed=i), bits) for i, bits in enumerate((4, 4, 8))]
    joined = join_rows(parts)
    assert joined.bits == 8
    assert torch.equal(joined.effective(), torch.cat([part.effective() for part in parts]))
    assert join_rows(parts[:2]).bits == 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_activations_meet_weights_rounded_to_it(dtype: torch.dtype) -> None:
    blocks = quantise(random(8, 64), 8)
    x = random(2, 64, seed=1).to(dtype)
    found = BlockMatrix(blocks, dtype=dtype)(x)
    assert found.dtype == dtype
    assert torch.equal(found, x @ blocks.effective().to(dtype).t())


def test_other_numbers_of_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="4 or 8, got 3"):
        quantise(torch.ones(2, 32), 3)


def test_the_file_is_not_held_by_what_was_read() -> None:
    raw = np.zeros(34, np.uint8)
    blocks = blocks_from_gguf(raw, "Q8_0", (1, 32))
    raw[:] = 255
    assert int(blocks.codes.max()) == 0
    assert float(blocks.scale.max()) == 0.0
