"""Floating-point weights behind the seam."""

from __future__ import annotations

import pytest
import torch

from agentkit_runtime.model.linear import (
    DenseMatrix,
    HalfMatrix,
    WeightFormat,
    fastest_format,
    half_supported,
)

needs_fbgemm = pytest.mark.skipif(
    not half_supported(torch.device("cpu"), torch.float32), reason="torch without FBGEMM"
)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@needs_fbgemm
@pytest.mark.parametrize("n_rows", [1, 2, 5, 16, 200])
def test_half_weights_are_multiplied_in_float32(n_rows: int) -> None:
    """Activations are not rounded: the result is that of the rounded weights, to float32's bits."""
    weight, bias, x = random(48, 65), random(48, seed=1), random(n_rows, 65, seed=2) * 1000
    matrix = HalfMatrix(weight, bias)
    exact = torch.nn.functional.linear(x.double(), weight.half().double(), bias.double())
    assert matrix.shape == (48, 65)
    assert matrix.n_bytes == 2 * 48 * 65
    assert float((matrix(x).double() - exact).abs().max()) < 1e-6 * float(exact.abs().max())


@needs_fbgemm
@pytest.mark.parametrize("value", [7e4, float("inf"), float("nan")])
def test_weights_that_float16_cannot_hold_are_refused(value: float) -> None:
    weight = torch.ones(2, 4)
    weight[1, 1] = value
    with pytest.raises(ValueError, match="float16 ends at 65504"):
        HalfMatrix(weight)


def test_a_table_gives_rows_in_the_compute_dtype() -> None:
    weight = random(5, 8)
    table = DenseMatrix(weight.half(), dtype=torch.float32)
    rows = table.rows(torch.tensor([4, 0]))
    assert rows.dtype == torch.float32
    assert torch.equal(rows, weight.half().float()[[4, 0]])
    assert table.n_bytes == 5 * 8 * 2


def test_formats_are_parsed_by_name() -> None:
    assert WeightFormat.parse("int4") is WeightFormat.INT4
    with pytest.raises(ValueError, match="'float16', 'int8', 'int4', got 'fp4'"):
        WeightFormat.parse("fp4")


def test_the_default_is_the_kernel_that_reads_half_the_bytes_where_it_exists() -> None:
    cpu, meta = torch.device("cpu"), torch.device("meta")
    here = WeightFormat.FLOAT16 if half_supported(cpu, torch.float32) else WeightFormat.FLOAT
    assert fastest_format(cpu, torch.float32) is here
    assert fastest_format(cpu, torch.bfloat16) is WeightFormat.FLOAT
    assert fastest_format(meta, torch.float32) is WeightFormat.FLOAT
