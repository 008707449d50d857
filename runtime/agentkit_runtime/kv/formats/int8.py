"""8-bit integers: each token and KV head has its own scale, its largest number over 127."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentkit_runtime.kv.formats.base import SCALE_DTYPE, TINY, Plane, largest

_MAX = 127


class Int8Codec:
    """`kv.formats.base.Codec`. Error of a number: at most half a step, which is the scale.

    Symmetric, so a head of zeros is read back as zeros. What was read and is written again keeps
    its bytes where the model computes in float32.
    """

    def __init__(self, head_dim: int, compute_dtype: torch.dtype) -> None:
        self.planes = (Plane(torch.int8, head_dim), Plane(SCALE_DTYPE, 1))
        self._compute_dtype = compute_dtype

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """See `Codec.encode`."""
        x = x.float()
        scale = largest(x).div_(_MAX).clamp_min_(TINY).to(SCALE_DTYPE)
        # Rounded down, a scale is 2^-8 too small: the largest code is 127.496 and rounds to 127.
        return (x / scale).round_().to(torch.int8), scale

    def decode(self, coded: Sequence[Tensor]) -> Tensor:
        """See `Codec.decode`."""
        codes, scale = coded
        return codes.to(self._compute_dtype).mul_(scale.to(self._compute_dtype))
