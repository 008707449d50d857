"""Attention with torch alone.

On CPU the flash kernel behind scaled-dot-product attention returns the log-sum-exp and takes
strided views, so the pool is read in place: no gather, no padding, no repeated KV heads.
Elsewhere, and where a sliding window cuts keys off, a plain float32 reference does the same sums.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentkit_runtime.attention.base import ForwardBatch, KvLayer
from agentkit_runtime.attention.merge import Accumulator
from agentkit_runtime.attention.plan import CausalPart, ReadPart

_cpu_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class SdpaAttention:
    """The default `AttentionBackend`."""

    def __init__(self, *, sliding_window: int | None = None) -> None:
        self._window = sliding_window

    def attend(self, q: Tensor, k: Tensor, v: Tensor, kv: KvLayer, batch: ForwardBatch) -> Tensor:
        """See `AttentionBackend.attend`."""
        n_rows, n_heads, head_dim = q.shape
        result = Accumulator(n_rows, n_heads, head_dim, like=q)
        for read in batch.plan.reads:
            self._read(result, q, kv, read, batch.positions)
        for causal in batch.plan.causal:
            self._causal(result, q, k, v, causal, batch.positions)
        return result.out

    def _read(
        self,
        result: Accumulator,
        q: Tensor,
        kv: KvLayer,
        part: ReadPart,
        positions: Tensor,
    ) -> None:
        rows = slice(part.row, part.row + part.n_rows)
        mask = None
        if self._window is not None:
            k_pos = torch.arange(
                part.first, part.first + part.extent.length, device=positions.device
            )
            mask = _window_mask(positions[rows], k_pos, self._window)
            if bool(mask.all()):
                mask = None
        keys, values = kv.read(part.extent.start, part.extent.length)
        out, lse = _full(q[rows], keys, values, mask)
        result.add(part.row, out, lse)

    def _causal(
        self,
        result: Accumulator,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        part: CausalPart,
        positions: Tensor,
    ) -> None:
        rows = slice(part.row, part.row + part.n_rows)
        if q.device.type == "cpu" and (self._window is None or part.n_rows <= self._window):
            out, lse = _causal_flash(q[rows], k[rows], v[rows])
        else:
            pos = positions[rows]
            mask = pos[None, :] <= pos[:, None]
            if self._window is not None:
                mask &= _window_mask(pos, pos, self._window)
            out, lse = _reference(q[rows], k[rows], v[rows], mask)
        result.add(part.row, out, lse)


def _full(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attend rows `q` [R, H, D] to all keys `k`, `v` [L, KVH, D] that `mask` [R, L] allows."""
    if mask is not None or q.device.type != "cpu":
        return _reference(q, k, v, mask)
    n_rows, n_heads, head_dim = q.shape
    n_kv = k.shape[1]
    group = n_heads // n_kv
    # Without a mask query heads of one group are just more queries of their KV head.
    folded = q.view(n_rows, n_kv, group, head_dim).transpose(0, 1)
    folded = folded.reshape(1, n_kv, n_rows * group, head_dim)
    out, lse = _cpu_flash(folded, k.transpose(0, 1)[None], v.transpose(0, 1)[None])
    out = out.view(n_kv, n_rows, group, head_dim).transpose(0, 1)
    lse = lse.view(n_kv, n_rows, group).transpose(0, 1)
    return out.reshape(n_rows, n_heads, head_dim), lse.reshape(n_rows, n_heads)


def _causal_flash(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Causal attention of one chunk: `q` [N, H, D], `k`, `v` [N, KVH, D]."""
    n_rows, n_heads, head_dim = q.shape
    n_kv = k.shape[1]
    group = n_heads // n_kv
    queries = q.view(n_rows, n_kv, group, head_dim).permute(1, 2, 0, 3)  # [KVH, G, N, D]
    shape = (n_kv, group, n_rows, head_dim)
    out, lse = _cpu_flash(
        queries,
        k.transpose(0, 1)[:, None].expand(shape),
        v.transpose(0, 1)[:, None].expand(shape),
        is_causal=True,
    )
    return (
        out.permute(2, 0, 1, 3).reshape(n_rows, n_heads, head_dim),
        lse.permute(2, 0, 1).reshape(n_rows, n_heads),
    )


def _reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Plain attention in float32; rows that see no key give zeros and lse -inf."""
    n_rows, n_heads, head_dim = q.shape
    n_kv = k.shape[1]
    queries = q.float().view(n_rows, n_kv, n_heads // n_kv, head_dim)
    scores = torch.einsum("rkgd,lkd->rkgl", queries, k.float()) * head_dim**-0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0.0)[..., None])
    out = torch.einsum("rkgl,lkd->rkgd", weights, v.float())
    return out.reshape(n_rows, n_heads, head_dim).to(q.dtype), lse.reshape(n_rows, n_heads)


def _window_mask(q_pos: Tensor, k_pos: Tensor, window: int) -> Tensor:
    """[R, L] bool: key is within the last `window` positions, the query's own included."""
    return k_pos[None, :] > q_pos[:, None] - window
