"""GGUF's simple block types as integers with scales: no rounding, only another arrangement.

Layouts are ggml's `block_q4_0`, `block_q4_1` and `block_q8_0`: 32 weights each, float16 scale `d`
(and minimum `m`), nibbles with the first half of the block in the low ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import torch

from agentkit_runtime.model.blocks import GROUP, Blocks

BLOCK_BYTES: Mapping[str, int] = MappingProxyType({"Q4_0": 18, "Q4_1": 20, "Q8_0": 34})
"""Types that are read here, and what a block of theirs takes."""

_HALF_BYTES = 2


def blocks_from_gguf(raw: np.ndarray, type_name: str, shape: tuple[int, int]) -> Blocks:
    """Take a tensor's bytes apart.

    Args:
        raw: uint8, all blocks of the tensor, row by row.
        type_name: a key of `BLOCK_BYTES`.
        shape: (out, in).
    """
    n_out, n_in = shape
    rows = raw.reshape(n_out, n_in // GROUP, BLOCK_BYTES[type_name])
    scale = _halves(rows, 0)
    if type_name == "Q8_0":
        stored = torch.from_numpy(rows[..., _HALF_BYTES:].view(np.int8).copy())
        return Blocks(bits=8, codes=stored, scale=scale, minimum=None)
    # Q4_0 stores code - 8; 8 d is exact in float16, because 8 is a power of two.
    minimum = _halves(rows, _HALF_BYTES) if type_name == "Q4_1" else -8 * scale
    nibbles = rows[..., -GROUP // 2 :]
    codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1).view(np.int8)
    return Blocks(bits=4, codes=torch.from_numpy(codes), scale=scale, minimum=minimum)


def _halves(rows: np.ndarray, offset: int) -> torch.Tensor:
    """One float16 of each block: [out, blocks]."""
    raw = np.ascontiguousarray(rows[..., offset : offset + _HALF_BYTES])
    return torch.from_numpy(raw.view(np.float16)[..., 0].copy())
