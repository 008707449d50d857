"""How far each format's numbers are from the ones that were stored."""

from __future__ import annotations

import pytest
import torch

from agentkit_runtime.kv.format import KvFormat, group_size
from agentkit_runtime.kv.formats import Codec, codec_for
from agentkit_runtime.kv.formats.fp8 import E4M3, E4M3_GAIN, E5M2, widen

FORMATS = list(KvFormat)
SCALED = [KvFormat.FP8_E4M3, KvFormat.FP8_E5M2, KvFormat.INT8, KvFormat.INT4]
COARSEST = {
    KvFormat.FLOAT32: 0.0,
    KvFormat.BFLOAT16: 2**-8,
    KvFormat.FLOAT16: 2**-11,
    KvFormat.FP8_E4M3: 2**-4,
    KvFormat.FP8_E5M2: 2**-3,
    KvFormat.INT8: 0.51 / 127,
    KvFormat.INT4: 1.01 / 15,
}
"""Largest error of a number, over the largest number of its head, with the scale's own rounding."""

OWN = {
    KvFormat.FP8_E4M3: 2**-4,
    KvFormat.FP8_E5M2: 2**-3,
    KvFormat.INT8: 2**-8,
    KvFormat.INT4: 2**-8,
}
"""Largest error of the largest number of a head, over itself."""


def codec(kv_format: KvFormat, head_dim: int = 64, dtype: torch.dtype = torch.float32) -> Codec:
    return codec_for(kv_format, head_dim=head_dim, compute_dtype=dtype)


def round_trip(kv_format: KvFormat, x: torch.Tensor) -> torch.Tensor:
    own = codec(kv_format, x.shape[-1], x.dtype)
    return own.decode(own.encode(x))


def heads(seed: int, *shape: int) -> torch.Tensor:
    """Numbers of very different sizes: heads from 1e-6 to 1e4."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, generator=generator)
    size = 10.0 ** (torch.rand(*shape[:-1], 1, generator=generator) * 10 - 6)
    return x * size


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("head_dim", [8, 64, 80, 128])
def test_a_number_is_as_near_as_its_format_promises(kv_format: KvFormat, head_dim: int) -> None:
    x = heads(head_dim, 2, 33, 3, head_dim)
    if kv_format is KvFormat.FLOAT16:
        x = x.clamp(-6e4, 6e4)
    bound = x.abs().amax(-1, keepdim=True) * COARSEST[kv_format] + 2.0**-25
    assert ((round_trip(kv_format, x) - x).abs() <= bound).all()


@pytest.mark.parametrize(("dtype", "step"), [(E4M3, 2**-4), (E5M2, 2**-3)])
def test_an_fp8_number_is_near_relative_to_itself(dtype: torch.dtype, step: float) -> None:
    kv_format = KvFormat.FP8_E4M3 if dtype is E4M3 else KvFormat.FP8_E5M2
    x = heads(0, 2, 33, 3, 64)
    largest = x.abs().amax(-1, keepdim=True)
    normal = x.abs() > largest * (torch.finfo(dtype).smallest_normal / torch.finfo(dtype).max) * 1.1
    error = (round_trip(kv_format, x) - x).abs() / x.abs()
    assert float(normal.float().mean()) > 0.9
    assert float(error[normal].max()) <= step * 1.01


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_the_quick_way_to_read_fp8_gives_the_numbers_of_torch(dtype: torch.dtype) -> None:
    codes = torch.arange(-128, 128).to(torch.int8)
    expected = codes.view(dtype).float()
    finite = expected.isfinite()
    gain = 1.0 if dtype is E5M2 else E4M3_GAIN
    assert int(finite.sum()) in (248, 254)
    assert torch.equal(widen(codes, dtype).float()[finite] * gain, expected[finite])


@pytest.mark.parametrize("kv_format", FORMATS)
def test_zeros_stay_zeros(kv_format: KvFormat) -> None:
    """R28: a zero scale could not be undone."""
    assert torch.equal(round_trip(kv_format, torch.zeros(2, 5, 3, 64)), torch.zeros(2, 5, 3, 64))


@pytest.mark.parametrize("kv_format", SCALED)
@pytest.mark.parametrize("value", [3.14159, -0.1, 1e-20, -70_000.0, 1e30])
def test_equal_numbers_keep_their_value(kv_format: KvFormat, value: float) -> None:
    """R28: a constant head makes the range zero, or the scale more than a float16."""
    back = round_trip(kv_format, torch.full((2, 5, 3, 64), value))
    assert ((back / value - 1).abs() <= OWN[kv_format]).all()


@pytest.mark.parametrize("kv_format", SCALED)
def test_one_outlier_costs_no_more_than_its_own_scale(kv_format: KvFormat) -> None:
    """R28."""
    x = torch.full((1, 64), 0.5)
    x[0, 7] = 1e5
    back = round_trip(kv_format, x)
    assert back.isfinite().all()
    assert float(back[0, 7]) == pytest.approx(1e5, rel=OWN[kv_format])
    assert ((back - x).abs() <= 1e5 * COARSEST[kv_format]).all()


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_shows_and_stays_in_its_head(kv_format: KvFormat, bad: float) -> None:
    x = heads(3, 4, 3, 64)
    sound = round_trip(kv_format, x)
    x[2, 1, 5] = bad
    back = round_trip(kv_format, x)
    assert not bool(back[2, 1].isfinite().all())
    sound[2, 1] = back[2, 1]
    assert torch.equal(back.nan_to_num(), sound.nan_to_num())


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_what_was_read_and_is_written_again_keeps_its_value(kv_format: KvFormat, seed: int) -> None:
    own = codec(kv_format)
    x = heads(seed, 200, 3, 64) + heads(seed + 9, 200, 3, 1)  # also groups far from zero
    first = own.encode(x)
    second = own.encode(own.decode(first))
    if not kv_format.startswith("fp8"):  # twice the codes and half the scale are the same numbers
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(own.decode(first), own.decode(second))


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_back_in_its_own_dtype(
    kv_format: KvFormat, dtype: torch.dtype
) -> None:
    x = torch.randn(40, 3, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    back = round_trip(kv_format, x)
    assert back.dtype is dtype
    bound = x.abs().amax(-1, keepdim=True).float() * (COARSEST[kv_format] + 2**-7)
    assert ((back.float() - x.float()).abs() <= bound).all()


@pytest.mark.parametrize(("head_dim", "group"), [(2, 2), (8, 8), (64, 16), (80, 16), (100, 4)])
def test_a_group_divides_the_head(head_dim: int, group: int) -> None:
    assert group_size(head_dim) == group


def test_an_odd_head_cannot_be_int4() -> None:
    with pytest.raises(ValueError, match="head_dim must be even, got 7"):
        codec(KvFormat.INT4, head_dim=7)


@pytest.mark.parametrize("name", ["int3", "fp16", "", "torch.float32"])
def test_an_unknown_format_is_named_with_those_that_are_known(name: str) -> None:
    with pytest.raises(ValueError, match=r"kv_dtype must be one of float32, .*fp8, got"):
        KvFormat.parse(name)


def test_fp8_is_e4m3() -> None:
    assert KvFormat.parse("fp8") is KvFormat.FP8_E4M3
    assert [KvFormat.parse(str(f)) for f in FORMATS] == FORMATS


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_the_scale_of_an_fp8_group_is_the_best_of_its_octave(dtype: torch.dtype) -> None:
    kv_format = KvFormat.FP8_E4M3 if dtype is E4M3 else KvFormat.FP8_E5M2
    x = torch.randn(300, 64, generator=torch.Generator().manual_seed(2)) * 3
    _, scales = codec(kv_format).encode(x)
    groups, scale = x.view(-1, 16), scales.float().view(-1, 1)

    def error(by: torch.Tensor) -> torch.Tensor:
        return ((groups / by).to(dtype).float() * by - groups).square().sum(-1)

    chosen = error(scale)
    largest = groups.abs().amax(-1, keepdim=True)
    assert (largest / scale <= torch.finfo(dtype).max * 1.01).all()
    assert float(chosen.sum()) < 0.75 * float(error(largest / torch.finfo(dtype).max).sum())
    for step in (2**0.125, 2**0.25, 2**0.5):
        smaller = scale / step
        fits = (largest / smaller)[:, 0] <= torch.finfo(dtype).max
        assert float((chosen / error(smaller))[fits].quantile(0.9)) <= 1.03
