"""4-bit integers: each group of up to 16 numbers of a head has its own scale and zero."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentkit_runtime.kv.format import int4_group_size
from agentkit_runtime.kv.formats.base import SCALE_DTYPE, TINY, Plane

_MAX = 15


class Int4Codec:
    """`kv.formats.base.Codec`: `number = code * scale + zero`, with codes 0 to 15.

    A byte holds numbers i (low half) and i + head_dim / 2 (high half) of a head. Error of a number:
    at most half a step. A step is no finer than the zero, a bfloat16, can be given: so a group of
    equal numbers keeps 8 bits of them, and what was read and is written again keeps its bytes
    where the model computes in float32.
    """

    def __init__(self, head_dim: int, compute_dtype: torch.dtype) -> None:
        self._group = int4_group_size(head_dim)
        self._n_groups = head_dim // self._group
        # Two planes: cast as slices of one, steps and zeros would take longer than all the rest.
        scales = Plane(SCALE_DTYPE, self._n_groups)
        self.planes = (Plane(torch.uint8, head_dim // 2), scales, scales)
        self._compute_dtype = compute_dtype

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """See `Codec.encode`."""
        groups = x.float().reshape(*x.shape[:-1], self._n_groups, self._group)
        low, high = groups.aminmax(dim=-1)
        zero = low.to(SCALE_DTYPE)
        finest = zero.float().abs() * 2.0**-7
        step = ((high - zero) / _MAX).maximum(finest).clamp_min_(TINY).to(SCALE_DTYPE)
        codes = (groups - zero[..., None]).div_(step[..., None]).round_().clamp_(0, _MAX)
        first, second = codes.to(torch.uint8).flatten(-2).chunk(2, dim=-1)
        return second.bitwise_left_shift(4).bitwise_or_(first), step, zero

    def decode(self, coded: Sequence[Tensor]) -> Tensor:
        """See `Codec.decode`."""
        packed, step, zero = coded
        half = packed.shape[-1]
        numbers = packed.new_empty((*packed.shape[:-1], 2 * half), dtype=self._compute_dtype)
        numbers[..., :half] = packed.bitwise_and(_MAX)
        numbers[..., half:] = packed.bitwise_right_shift(4)
        groups = numbers.view(*numbers.shape[:-1], self._n_groups, self._group)
        groups.mul_(step.to(self._compute_dtype)[..., None])
        groups.add_(zero.to(self._compute_dtype)[..., None])
        return numbers
