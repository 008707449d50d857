"""Measure `cost.AttentionCost` on the pool and the kernels that a model will use."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import torch
from torch import Tensor

from agentkit_runtime.attention.base import KvLayer
from agentkit_runtime.attention.cost import (
    CUDA_COST,
    DEFAULT_COST,
    AttentionCost,
    measure,
)
from agentkit_runtime.attention.kernels import Kernels, Packed
from agentkit_runtime.attention.merge import MergeState

_log = logging.getLogger(__name__)
_KEYS = {"cpu": 2048, "cuda": 16384}
"""Keys of a long read: on a GPU fewer take no time beside starting a kernel."""
_MIN_KEYS = 64
"""A pool with fewer slots is too small to measure, and nothing in it is worth sharing."""


@torch.inference_mode()
def calibrated(
    kernels: Kernels,
    kv: KvLayer,
    *,
    n_slots: int,
    n_heads: int,
    n_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    device: torch.device,
    clock: Callable[[], float] = time.perf_counter,
) -> AttentionCost | None:
    """Time parts of attention on one layer of a pool that nobody uses yet.

    Writes noise into the first slots: what a free slot holds is garbage anyway. What decoding a
    coded pool costs is part of reading a key.

    Args:
        kernels: of the device.
        kv: the layer.
        n_slots: slots of the pool.
        n_heads: query heads.
        n_kv_heads: key and value heads.
        head_dim: numbers of a head.
        dtype: compute dtype.
        device: of the pool.
        clock: seconds.

    Returns:
        The costs, or None where the pool is too small or the machine too busy to measure them.
    """
    if n_slots < _MIN_KEYS:
        return None
    n_keys = min(_KEYS.get(device.type, 2048), n_slots)
    shape = (n_keys, n_kv_heads, head_dim)
    noise = torch.Generator(device).manual_seed(0)
    k = torch.rand(shape, generator=noise, device=device).to(dtype) - 0.5
    kv.write(torch.arange(n_keys, device=device), k, k)
    started = clock()
    probe = _TorchProbe(kernels, kv, k, n_heads // n_kv_heads)
    cost = measure(probe, clock=clock, most_gathered=default_cost(device).most_gathered)
    took_ms = (clock() - started) * 1000
    if cost is None:
        _log.info("attention costs: the machine is too busy to measure them (%.0f ms)", took_ms)
    else:
        _log.info("attention costs, measured in %.0f ms: %s", took_ms, cost)
    return cost


def default_cost(device: torch.device) -> AttentionCost:
    """Return the costs to assume where they cannot be measured."""
    return CUDA_COST if device.type == "cuda" else DEFAULT_COST


class _TorchProbe:
    """`cost.Probe`. `k` [keys, KVH, D] is what the layer's first slots hold."""

    def __init__(self, kernels: Kernels, kv: KvLayer, k: Tensor, group: int) -> None:
        self._kernels, self._kv, self._k, self._group = kernels, kv, k, group
        self.keys = k.shape[0]
        self._queries: dict[int, Tensor] = {}
        self._slots: dict[int, Tensor] = {}

    def read(self, rows: int, keys: int) -> None:
        k, v = self._kv.read(0, keys)
        self._kernels.full(self._q(rows)[None], k[None], v[None], None)
        self._wait()

    def gather(self, lanes: int, keys: int) -> None:
        n = lanes * keys
        if n not in self._slots:  # a step makes them once for all layers
            self._slots[n] = torch.arange(n, device=self._k.device)
        k, v = self._kv.gather(self._slots[n])
        q = self._q(lanes)
        if self._kernels.packs:
            rows = torch.arange(lanes + 1, dtype=torch.int32, device=q.device)
            packed = Packed(rows, rows * keys, lanes, 1, keys, causal=False)
            self._kernels.packed(q, k, v, packed)
        else:
            shape = (lanes, keys, *k.shape[1:])
            q = q.view(q.shape[0], lanes, self._group, -1).transpose(0, 1)
            self._kernels.full(q, k.view(shape), v.view(shape), None)
        self._wait()

    def merge(self, rows: int) -> None:
        out = self._k[: rows * self._group].float()
        lse = out[..., 0]
        state = MergeState(2 * out.shape[0], empty_rows=False)
        state.set(slice(0, out.shape[0]), out, lse)
        state.merge(slice(0, out.shape[0]), out, lse)
        self._wait()

    def _q(self, rows: int) -> Tensor:
        """[KVH, rows * G, D]."""
        if rows not in self._queries:
            n = torch.arange(rows * self._group, device=self._k.device) % self.keys
            self._queries[rows] = self._k[n].transpose(0, 1).contiguous()
        return self._queries[rows]

    def _wait(self) -> None:
        if self._k.is_cuda:
            torch.cuda.synchronize()
