"""Attention with FlashInfer on CUDA: pages of one token, shared prefixes as a cascade.

The library is optional and imported by `select`. A slot of the pool is a page of size 1, so
extents become lists of page numbers and nothing of the pool is copied. FlashInfer's log-sum-exp is
to the base of 2; it stays inside the library, which also merges the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from agentkit_runtime.attention.base import AttentionStats, ForwardBatch, KvLayer
from agentkit_runtime.attention.cascade import CascadePlan, Level, plan_cascade
from agentkit_runtime.attention.cost import CUDA_COST, AttentionCost
from agentkit_runtime.attention.plan import Lane

_WORKSPACE_BYTES = 128 * 2**20
"""What FlashInfer recommends for partial results."""


class FlashInferLibrary(Protocol):
    """What is used of the module `flashinfer` (0.2 or later)."""

    BatchPrefillWithPagedKVCacheWrapper: Any
    MultiLevelCascadeAttentionWrapper: Any


class FlashInferAttention:
    """`AttentionBackend` over a pool of plain numbers. For one thread, like its core.

    Args:
        library: the module.
        n_heads: query heads.
        n_kv_heads: key and value heads.
        head_dim: numbers of a head.
        n_slots: slots of the pool.
        dtype: half precision, of queries and of the pool.
        device: where.
        sliding_window: each token sees this many positions up to its own; None is all.
        cost: decides what lanes share.
    """

    def __init__(
        self,
        library: FlashInferLibrary,
        *,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        n_slots: int,
        dtype: torch.dtype,
        device: torch.device,
        sliding_window: int | None = None,
        cost: AttentionCost = CUDA_COST,
    ) -> None:
        self._library = library
        self._heads = (n_heads, n_kv_heads, head_dim)
        self._n_slots = n_slots
        self._dtype = dtype
        self._window = sliding_window
        self.cost = cost
        self._workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        self._wrappers: dict[int, Any] = {}
        self._planned: CascadePlan | None = None
        self._stats = AttentionStats()

    @property
    def stats(self) -> AttentionStats:
        """See `AttentionBackend.stats`."""
        return self._stats

    def plan(self, lanes: Sequence[Lane]) -> CascadePlan:
        """See `AttentionBackend.plan`."""
        plan = plan_cascade(lanes, self.cost, window=self._window)
        self._stats = self._stats.plus(plan)
        return plan

    def attend(self, q: Tensor, k: Tensor, v: Tensor, kv: KvLayer, batch: ForwardBatch) -> Tensor:
        """See `AttentionBackend.attend`. New keys and values are read from the pool, too."""
        plan = batch.plan
        if not isinstance(plan, CascadePlan):
            raise TypeError(f"the plan must be one of this backend's own, got {type(plan)!r}")
        wrapper = self._wrapper(len(plan.levels))
        if plan is not self._planned:  # once a step, at its first layer
            self._plan_kernels(wrapper, plan)
            self._planned = plan
        keys, values = kv.read(0, self._n_slots)
        out: Tensor = wrapper.run(q.contiguous(), (keys.unsqueeze(1), values.unsqueeze(1)))
        return out

    def _wrapper(self, n_levels: int) -> Any:
        if n_levels not in self._wrappers:
            if n_levels == 1:
                made = self._library.BatchPrefillWithPagedKVCacheWrapper(self._workspace, "NHD")
            else:
                made = self._library.MultiLevelCascadeAttentionWrapper(
                    n_levels, self._workspace, "NHD"
                )
            self._wrappers[n_levels] = made
        return self._wrappers[n_levels]

    def _plan_kernels(self, wrapper: Any, plan: CascadePlan) -> None:
        tables = [page_table(level) for level in plan.levels]
        options = {
            "causal": True,
            "window_left": plan.window_left,
            "q_data_type": self._dtype,
            "kv_data_type": self._dtype,
        }
        if len(tables) == 1:
            wrapper.plan(*tables[0], *self._heads, 1, **options)
        else:
            columns = [list(column) for column in zip(*tables, strict=True)]
            wrapper.plan(*columns, *self._heads, 1, **options)


def page_table(level: Level) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a level as FlashInfer wants it, int32 on the host.

    Returns:
        qo_indptr [n + 1], kv_indptr [n + 1], kv_indices [keys], kv_last_page_len [n]. The last one
        is 1, the page size, and 0 for a request without keys.
    """
    sizes = [sum(extent.length for extent in keys) for keys in level.keys]
    indptr = torch.zeros(len(sizes) + 1, dtype=torch.int32)
    indptr[1:] = torch.tensor(sizes, dtype=torch.int32).cumsum(0)
    runs = [
        torch.arange(extent.start, extent.end, dtype=torch.int32)
        for keys in level.keys
        for extent in keys
    ]
    return (
        torch.tensor(level.rows, dtype=torch.int32),
        indptr,
        torch.cat(runs) if runs else torch.zeros(0, dtype=torch.int32),
        torch.tensor([min(size, 1) for size in sizes], dtype=torch.int32),
    )
