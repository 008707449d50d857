"""Attention kernels on CUDA: FlashAttention as torch ships it, in half precision.

Torch's operators return the log-sum-exp, take strided views of the pool and fewer KV heads than
query heads, and in their variable-length form read lanes of unequal length in one launch, without
padding. Other dtypes and masks (a sliding window that cuts a read) go to the float32 reference.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from agentkit_runtime.attention.kernels import Mask, Packed, ReferenceKernels, unfold_batch

_forward = torch.ops.aten._flash_attention_forward
_MAX_HEAD_DIM, _HEAD_DIM_STEP = 256, 8


class FlashForward(Protocol):
    """FlashAttention's forward pass."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, lanes: Packed | None
    ) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            q: [B, N, H, D]; with `lanes` [rows, H, D].
            k: [B, L, KVH, D]; with `lanes` [keys, KVH, D].
            v: as `k`.
            causal: the last query sees all keys, each one before it one key less.
            lanes: where the lanes lie in packed tensors.

        Returns:
            out like `q`, and lse [B, H, N]; with `lanes` [H, rows].
        """


def torch_flash(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, lanes: Packed | None
) -> tuple[Tensor, Tensor]:
    """Torch's `FlashForward`."""
    if lanes is None:
        out, lse, *_ = _forward(q, k, v, None, None, q.shape[1], k.shape[1], 0.0, causal, False)
    else:
        sizes = (lanes.max_rows, lanes.max_keys)
        out, lse, *_ = _forward(q, k, v, lanes.rows, lanes.keys, *sizes, 0.0, causal, False)
    return out, lse


class CudaKernels:
    """`kernels.Kernels` over a `FlashForward`."""

    packs = True

    def __init__(self, flash: FlashForward = torch_flash) -> None:
        self._flash = flash
        self._reference = ReferenceKernels()

    def full(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
        """See `Kernels.full`."""
        if mask is not None or not _fits(q):
            return self._reference.full(q, k, v, mask)
        out, lse = self._flash(q.transpose(1, 2), k, v, causal=False, lanes=None)
        return out.flatten(0, 1), unfold_batch(lse)

    def causal(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """See `Kernels.causal`."""
        if not _fits(q):
            return self._reference.causal(q, k, v)
        rows = _rows_first(q, k.shape[0])
        out, lse = self._flash(rows[None], k[None], v[None], causal=True, lanes=None)
        return _folded(out[0], lse[0], k.shape[1])

    def packed(self, q: Tensor, k: Tensor, v: Tensor, lanes: Packed) -> tuple[Tensor, Tensor]:
        """See `Kernels.packed`."""
        if not _fits(q):
            return self._reference.packed(q, k, v, lanes)
        rows = _rows_first(q, lanes.n_rows)
        out, lse = self._flash(rows, k, v, causal=lanes.causal, lanes=lanes)
        return _folded(out, lse, k.shape[1])


def _fits(q: Tensor) -> bool:
    """True for what FlashAttention takes."""
    head_dim = q.shape[-1]
    return (
        q.dtype in (torch.float16, torch.bfloat16)
        and head_dim <= _MAX_HEAD_DIM
        and head_dim % _HEAD_DIM_STEP == 0
    )


def _rows_first(q: Tensor, n_rows: int) -> Tensor:
    """[KVH, rows * G, D] -> [rows, H, D]."""
    n_kv, n_folded, head_dim = q.shape
    rows = q.view(n_kv, n_rows, n_folded // n_rows, head_dim).transpose(0, 1)
    return rows.reshape(n_rows, -1, head_dim)


def _folded(out: Tensor, lse: Tensor, n_kv: int) -> tuple[Tensor, Tensor]:
    """[rows, H, D] and [H, rows] -> [rows * G, KVH, D] and [rows * G, KVH]."""
    n_rows, n_heads, head_dim = out.shape
    group = n_heads // n_kv
    out = out.view(n_rows, n_kv, group, head_dim).transpose(1, 2)
    lse = lse.view(n_kv, group, n_rows).permute(2, 1, 0)
    return out.reshape(-1, n_kv, head_dim), lse.reshape(-1, n_kv)
