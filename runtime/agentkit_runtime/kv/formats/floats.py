"""Plain floating-point numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.formats.base import Plane

FLOAT_DTYPES = {
    KvFormat.FLOAT32: torch.float32,
    KvFormat.BFLOAT16: torch.bfloat16,
    KvFormat.FLOAT16: torch.float16,
}


def float_format(dtype: torch.dtype) -> KvFormat:
    """Return the format that stores `dtype` as it is. Raises ValueError when there is none."""
    for kv_format, stored in FLOAT_DTYPES.items():
        if stored is dtype:
            return kv_format
    raise ValueError(f"no KV format stores {dtype}; take one of {list(FLOAT_DTYPES.values())}")


class FloatCodec:
    """Stores numbers rounded to `dtype`; `kv.formats.base.Codec`."""

    def __init__(self, dtype: torch.dtype, head_dim: int, compute_dtype: torch.dtype) -> None:
        self.planes = (Plane(dtype, head_dim),)
        self._compute_dtype = compute_dtype

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """See `Codec.encode`. Infinities stay what they are."""
        return (x.to(self.planes[0].dtype),)

    def decode(self, coded: Sequence[Tensor]) -> Tensor:
        """See `Codec.decode`."""
        return coded[0].to(self._compute_dtype)
