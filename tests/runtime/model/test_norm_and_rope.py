"""Two small formulas against their definitions."""

from __future__ import annotations

import pytest
import torch

from agentkit_runtime.model.config import ModelConfig, RopeScaling
from agentkit_runtime.model.norm import RmsNorm
from agentkit_runtime.model.rope import RopeTable, inverse_frequencies, rotate

CPU = torch.device("cpu")


def config(**changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "family": "llama",
        "n_layers": 1,
        "hidden": 64,
        "n_heads": 4,
        "n_kv_heads": 2,
        "head_dim": 16,
        "intermediate": 96,
        "vocab": 40,
        "rms_eps": 1e-5,
        "rope_theta": 10_000.0,
        "max_position": 256,
    }
    return ModelConfig(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("eps", [1e-5, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_is_that_of_torch(scale: float, eps: float, dtype: torch.dtype) -> None:
    """Also where eps decides: rows that are nearly zero."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(64, generator=generator).to(dtype)
    x = (torch.randn(5, 3, 64, generator=generator) * scale).to(dtype)
    expected = torch.nn.functional.rms_norm(x, (64,), weight, eps)
    found = RmsNorm(weight, eps)(x)
    assert found.dtype == dtype
    assert torch.allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_rotation_turns_pairs_of_both_halves_by_position_times_frequency() -> None:
    shape = config()
    x = torch.randn(4, 3, 16, generator=torch.Generator().manual_seed(1))
    positions = torch.tensor([0, 1, 77, 255])
    pairs = torch.complex(x[..., :8], x[..., 8:])
    angles = positions[:, None, None] * inverse_frequencies(shape)
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    found = rotate(x, *RopeTable(shape, device=CPU).at(positions))
    assert torch.allclose(found, torch.cat((turned.real, turned.imag), dim=-1), atol=1e-4)


def test_yarn_multiplies_queries_and_keys_and_keeps_the_fastest_pair() -> None:
    yarn = RopeScaling(kind="yarn", factor=4.0, original_max_position=32, attention_factor=1.5)
    shape = config(rope_scaling=yarn)
    x = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(1))
    found = rotate(x, *RopeTable(shape, device=CPU).at(torch.tensor([9])))
    assert float(found.norm()) == pytest.approx(1.5 * float(x.norm()), rel=1e-5)
    plain, stretched = inverse_frequencies(config()), inverse_frequencies(shape)
    assert float(stretched[0]) == pytest.approx(float(plain[0]))
    assert float(stretched[-1]) == pytest.approx(float(plain[-1]) / 4)
