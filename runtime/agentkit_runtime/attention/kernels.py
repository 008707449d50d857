"""What a device must be able to compute, and the plain version of it that runs everywhere.

Shapes are folded (see `merge`): N folded rows are rows times query heads of a KV head. A kernel
gives `out` [B * N, KVH, D] in any floating dtype and `lse` [B * N, KVH] float32, natural logarithm,
-inf for a row that sees no key; such a row's `out` is zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Mask:
    """Which keys rows see."""

    bias: Tensor
    """[B, 1, N, L] in the compute dtype: 0 where a row sees a key, else -inf."""
    blind: Tensor | None
    """[B, 1, N] bool: rows that see none; None when every row sees some."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Lanes of unequal length one behind the other, for kernels that take them so."""

    rows: Tensor
    """[B + 1] int32, where each lane's rows begin (not folded)."""
    keys: Tensor
    """[B + 1] int32, where each lane's keys begin."""
    n_rows: int
    """In all,"""
    max_rows: int
    """and of the longest lane."""
    max_keys: int
    causal: bool
    """A lane's last keys are its own rows: row i of n sees all but the last n - 1 - i keys."""


class Kernels(Protocol):
    """The attention kernels of one device."""

    packs: bool
    """True when lanes of unequal length are read with `packed`, else padded under a mask."""

    def full(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
        """Attend `q` [B, KVH, N, D] to all `k`, `v` [B, L, KVH, D] that the mask allows."""

    def causal(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Attend a chunk to itself: `q` [KVH, n * G, D], `k`, `v` [n, KVH, D]."""

    def packed(self, q: Tensor, k: Tensor, v: Tensor, lanes: Packed) -> tuple[Tensor, Tensor]:
        """Attend `q` [KVH, rows * G, D] to `k`, `v` [keys, KVH, D], each lane to its own."""


class ReferenceKernels:
    """Float32 matrix products. Slow, right, and the same on every device."""

    packs = False

    def full(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
        """See `Kernels.full`."""
        keys, values = k.float().permute(0, 2, 3, 1), v.float().transpose(1, 2)
        scores = torch.matmul(q.float(), keys) * q.shape[-1] ** -0.5  # [B, KVH, N, L]
        if mask is not None:
            scores = scores + mask.bias
        lse = torch.logsumexp(scores, dim=-1)
        weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0.0)[..., None])
        return unfold_batch(torch.matmul(weights, values)), unfold_batch(lse)

    def causal(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """See `Kernels.causal`."""
        group = q.shape[1] // k.shape[0]
        row = torch.arange(q.shape[1], device=q.device) // group
        seen = torch.arange(k.shape[0], device=q.device)[None, :] <= row[:, None]
        return self.full(q[None], k[None], v[None], Mask(bias_of(seen, torch.float32), None))

    def packed(self, q: Tensor, k: Tensor, v: Tensor, lanes: Packed) -> tuple[Tensor, Tensor]:
        """See `Kernels.packed`. Lane by lane."""
        group = q.shape[1] // lanes.n_rows
        outs: list[Tensor] = []
        lses: list[Tensor] = []
        rows, keys = lanes.rows.tolist(), lanes.keys.tolist()
        for lane in range(len(rows) - 1):
            n_rows, n_keys = rows[lane + 1] - rows[lane], keys[lane + 1] - keys[lane]
            span = slice(keys[lane], keys[lane + 1])
            row = torch.arange(n_rows * group, device=q.device) // group
            last = n_keys - n_rows + row if lanes.causal else torch.full_like(row, n_keys)
            seen = torch.arange(n_keys, device=q.device)[None, :] <= last[:, None]
            out, lse = self.full(
                q[None, :, rows[lane] * group : rows[lane + 1] * group],
                k[None, span],
                v[None, span],
                Mask(bias_of(seen, torch.float32), None),
            )
            outs.append(out)
            lses.append(lse)
        return torch.cat(outs), torch.cat(lses)


def bias_of(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn `seen` [..., N, L] bool into a [..., 1, N, L] bias of 0 and -inf."""
    bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return bias.masked_fill_(~seen, float("-inf")).unsqueeze(-3)


def unfold_batch(x: Tensor) -> Tensor:
    """[B, KVH, N, ...] -> [B * N, KVH, ...]."""
    return x.transpose(1, 2).flatten(0, 1)
