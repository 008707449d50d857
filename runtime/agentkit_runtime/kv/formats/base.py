"""The seam between the pool and a number format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

SCALE_DTYPE = torch.bfloat16
"""Of scales and zeros: the range of a float32, so that no outlier overflows it."""
TINY = 1e-30
"""Smallest scale: nothing is divided by zero, and smaller numbers are read back as zero."""


class Plane(NamedTuple):
    """One tensor of a pool: `width` numbers of `dtype` for each layer, slot and KV head."""

    dtype: torch.dtype
    width: int


class Codec(Protocol):
    """Turns numbers into rows of planes and back. Stateless.

    What belongs to one token and head depends on that token and head alone, so it does not matter
    with which others it is written or read.
    """

    @property
    def planes(self) -> tuple[Plane, ...]:
        """What is stored; codes first, then what is needed to read them."""

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """Encode `x` [..., head_dim]; returns a tensor [..., width] for each plane.

        A NaN or an infinity makes what is read back NaN, for this token and head only.
        """

    def decode(self, coded: Sequence[Tensor]) -> Tensor:
        """Return the numbers [..., head_dim] of planes [..., width], in the compute dtype.

        A new tensor, except where the stored numbers are what is wanted.
        """


def largest(x: Tensor) -> Tensor:
    """Return the largest size of a number in each row of `x` [..., n], [..., 1]; NaN where one is.

    A new tensor.
    """
    norm: Tensor = torch.linalg.vector_norm(x, float("inf"), dim=-1, keepdim=True)
    return norm
