"""Rotary position embeddings, half-split form (rotate_half), float32 tables."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agentkit_runtime.model.config import ModelConfig, RopeScaling


class RopeTable:
    """Factors of every position of a model, [max_position, head_dim] each, for `rotate`."""

    def __init__(self, config: ModelConfig, *, device: torch.device) -> None:
        inverse = inverse_frequencies(config)
        angles = torch.outer(torch.arange(config.max_position, dtype=torch.float32), inverse)
        scale = config.rope_scaling.attention_factor if config.rope_scaling else 1.0
        cos, sin = angles.cos() * scale, angles.sin() * scale
        self._cos = torch.cat((cos, cos), dim=-1).to(device)
        self._sin = torch.cat((-sin, sin), dim=-1).to(device)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and signed sin [T, 1, head_dim] of `positions` [T]."""
        return (
            self._cos.index_select(0, positions)[:, None],
            self._sin.index_select(0, positions)[:, None],
        )


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate `x` [T, heads, head_dim]; pairs are (i, i + head_dim / 2). Keeps the dtype of `x`.

    `cos` and `sin` are from `RopeTable.at`: the first half of `sin` has its sign turned.
    """
    partners = x.roll(x.shape[-1] // 2, dims=-1)
    rotated = torch.addcmul(x * cos, partners, sin)
    return rotated.to(x.dtype)  # the tables are float32: half precision would blur far positions


def inverse_frequencies(config: ModelConfig) -> Tensor:
    """Return the per-pair angular frequencies [head_dim / 2] after scaling."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    inverse = 1.0 / (config.rope_theta**exponent)
    if config.rope_factors is not None:
        return inverse / torch.tensor(config.rope_factors, dtype=torch.float32)
    match config.rope_scaling:
        case None:
            return inverse
        case RopeScaling(kind="linear", factor=factor):
            return inverse / factor
        case RopeScaling(kind="yarn") as scaling:
            return _yarn_scaled(inverse, scaling, config.rope_theta)
        case scaling:
            return _llama3_scaled(inverse, scaling)


def _llama3_scaled(inverse: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama-3.1's rule: long waves are slowed by `factor`, short ones kept, the middle blended."""
    wavelength = 2 * math.pi / inverse
    low = scaling.original_max_position / scaling.low_freq_factor
    high = scaling.original_max_position / scaling.high_freq_factor
    smooth = (scaling.original_max_position / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blended = (1 - smooth) * inverse / scaling.factor + smooth * inverse
    scaled = torch.where(wavelength > low, inverse / scaling.factor, inverse)
    middle = (wavelength <= low) & (wavelength >= high)
    return torch.where(middle, blended, scaled)


def yarn_attention_factor(factor: float) -> float:
    """YaRN's growth of attention scores with the stretch: 0.1 ln(factor) + 1."""
    return 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1.0


def _yarn_scaled(inverse: Tensor, scaling: RopeScaling, theta: float) -> Tensor:
    """YaRN (arXiv 2309.00071, "NTK-by-parts"): like llama3's rule, with a ramp over the pairs."""
    n_pairs = inverse.shape[0]

    def pair_that_turns(times: float) -> float:
        """Which pair (a fraction) turns so often within the original context."""
        wavelength = scaling.original_max_position / (times * 2 * math.pi)
        return n_pairs * math.log(wavelength) / math.log(theta)

    low, high = pair_that_turns(scaling.beta_fast), pair_that_turns(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * n_pairs - 1)
    span = high - low if high != low else 0.001
    ramp = ((torch.arange(n_pairs, dtype=torch.float32) - low) / span).clamp_(0, 1)
    return inverse * (1 - ramp) + inverse / scaling.factor * ramp
