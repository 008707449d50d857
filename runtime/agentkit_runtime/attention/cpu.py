"""Attention kernels on the CPU: the flash kernel behind torch's scaled-dot-product attention.

It returns the log-sum-exp and takes strided views, so the pool is read in place: no copy of a
prefix, no repeated KV heads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentkit_runtime.attention.kernels import Mask, Packed, unfold_batch

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class CpuKernels:
    """`kernels.Kernels`."""

    packs = False

    def full(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
        """See `Kernels.full`."""
        keys, values = k.transpose(1, 2), v.transpose(1, 2)
        if mask is None:
            out, lse = _flash(q, keys, values)
        else:
            out, lse = _flash(q, keys, values, attn_mask=mask.bias)
            if mask.blind is not None:  # the kernel says 0, as if such a row had seen something
                lse = lse.masked_fill(mask.blind, float("-inf"))
        return unfold_batch(out), unfold_batch(lse)

    def causal(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """See `Kernels.causal`."""
        n, n_kv, head_dim = k.shape
        group = q.shape[1] // n
        shape = (n_kv, group, n, head_dim)
        out, lse = _flash(
            q.view(n_kv, n, group, head_dim).transpose(1, 2),
            k.transpose(0, 1)[:, None].expand(shape),
            v.transpose(0, 1)[:, None].expand(shape),
            is_causal=True,
        )
        # [KVH, G, n, ...] -> [n * G, KVH, ...]
        return out.permute(2, 1, 0, 3).flatten(0, 1), lse.permute(2, 1, 0).flatten(0, 1)

    def packed(self, q: Tensor, k: Tensor, v: Tensor, lanes: Packed) -> tuple[Tensor, Tensor]:
        """Never called: `packs` is False."""
        raise NotImplementedError("the CPU kernel takes lanes of equal length, padded under a mask")
