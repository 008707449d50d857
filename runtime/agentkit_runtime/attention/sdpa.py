"""Attention with torch alone: the default backend, on every device.

A layer runs one kernel for each part of the plan and merges the results by log-sum-exp. The kernels
are those of the device (`cpu`, `cuda`); what they do not take goes to the float32 reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentkit_runtime.attention.base import AttentionStats, ForwardBatch, KvLayer
from agentkit_runtime.attention.compiled import CompiledPart, CompiledPlan, PlanCompiler
from agentkit_runtime.attention.cost import DEFAULT_COST, AttentionCost
from agentkit_runtime.attention.cpu import CpuKernels
from agentkit_runtime.attention.cuda import CudaKernels
from agentkit_runtime.attention.kernels import Kernels, ReferenceKernels
from agentkit_runtime.attention.merge import MergeState
from agentkit_runtime.attention.plan import (
    AttentionPlan,
    CausalPart,
    GatherPart,
    Lane,
    build_plan,
)


class SdpaAttention:
    """The default `AttentionBackend`. For one thread, like the core that owns it.

    Args:
        sliding_window: each token sees this many positions up to its own; None is all.
        cost: decides what lanes share; `calibrate.calibrated` measures it.
        kernels: None takes those of the device.
    """

    def __init__(
        self,
        *,
        sliding_window: int | None = None,
        cost: AttentionCost = DEFAULT_COST,
        kernels: Kernels | None = None,
    ) -> None:
        self._window = sliding_window
        self.cost = cost
        self._kernels = kernels
        self.compiled: CompiledPlan | None = None
        self._stats = AttentionStats()

    @property
    def stats(self) -> AttentionStats:
        """See `AttentionBackend.stats`."""
        return self._stats

    def plan(self, lanes: Sequence[Lane]) -> AttentionPlan:
        """See `AttentionBackend.plan`."""
        plan = build_plan(lanes, self.cost, window=self._window)
        self._stats = self._stats.plus(plan)
        return plan

    def attend(self, q: Tensor, k: Tensor, v: Tensor, kv: KvLayer, batch: ForwardBatch) -> Tensor:
        """See `AttentionBackend.attend`."""
        kernels = self._kernels or kernels_for(q.device)
        group = q.shape[1] // k.shape[1]
        compiled = self.compiled
        if compiled is None or compiled.plan is not batch.plan:  # once a step, at its first layer
            compiled = self.compiled = PlanCompiler(
                group=group,
                dtype=q.dtype,
                device=q.device,
                window=self._window,
                packs=kernels.packs,
            ).compile(batch.plan)
        folded = fold(q, k.shape[1])
        state = MergeState(folded.shape[1], empty_rows=compiled.empty_rows)
        for part in compiled.parts:
            out, lse = _run(kernels, part, folded, k, v, kv)
            if part.merges:
                blind = part.mask is not None and part.mask.blind is not None
                state.merge(part.folded, out, lse, last=part.last, blind=blind)
            else:
                state.set(part.folded, out, lse)
        return unfold(state.out, group).to(q.dtype)


def kernels_for(device: torch.device) -> Kernels:
    """Return the fastest kernels of a device."""
    if device.type == "cpu":
        return CpuKernels()
    return CudaKernels() if device.type == "cuda" else ReferenceKernels()


def fold(q: Tensor, n_kv: int) -> Tensor:
    """[T, H, D] -> [KVH, T * G, D]: heads of a group become rows of their KV head."""
    n_rows, n_heads, head_dim = q.shape
    rows = q.view(n_rows, n_kv, n_heads // n_kv, head_dim).transpose(0, 1)
    return rows.reshape(n_kv, -1, head_dim)


def unfold(out: Tensor, group: int) -> Tensor:
    """[T * G, KVH, D] -> [T, H, D]."""
    n_folded, n_kv, head_dim = out.shape
    rows = out.view(n_folded // group, group, n_kv, head_dim).transpose(1, 2)
    return rows.reshape(n_folded // group, -1, head_dim)


def _run(
    kernels: Kernels, step: CompiledPart, folded: Tensor, k: Tensor, v: Tensor, kv: KvLayer
) -> tuple[Tensor, Tensor]:
    """Compute one part: out [n * G, KVH, D], lse [n * G, KVH]."""
    part, q = step.part, folded[:, step.folded]
    if isinstance(part, CausalPart):
        rows = slice(part.row, part.row + part.n_rows)
        if step.mask is None:
            return kernels.causal(q, k[rows], v[rows])
        return kernels.full(q[None], k[None, rows], v[None, rows], step.mask)
    if isinstance(part, GatherPart):
        assert step.slots is not None, "what is gathered has slots"
        keys, values = kv.gather(step.slots)
        if step.packed is not None:
            return kernels.packed(q, keys, values, step.packed)
        n_kv, _, head_dim = q.shape
        shape = (step.n_lanes, -1, n_kv, head_dim)
        queries = q.view(n_kv, step.n_lanes, -1, head_dim).transpose(0, 1)
        return kernels.full(queries, keys.view(shape), values.view(shape), step.mask)
    keys, values = kv.read(*part.extent)
    return kernels.full(q[None], keys[None], values[None], step.mask)
