"""Choose the attention backend for a model, a pool and a device."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Literal

import torch

from agentkit_runtime.attention.base import AttentionBackend, KvLayer
from agentkit_runtime.attention.calibrate import calibrated, default_cost
from agentkit_runtime.attention.flashinfer import FlashInferAttention
from agentkit_runtime.attention.sdpa import SdpaAttention, kernels_for

AttentionName = Literal["auto", "sdpa", "flashinfer"]
ATTENTION_NAMES: tuple[AttentionName, ...] = ("auto", "sdpa", "flashinfer")

_FLASHINFER_HEAD_DIMS = (64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """What a backend must know of model, pool and device."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    sliding_window: int | None
    dtype: torch.dtype
    """Compute dtype."""
    device: torch.device
    n_slots: int
    plain_pool: bool
    """The pool stores what the model computes; a coded one has to be decoded first."""


def check_attention(name: AttentionName, device: torch.device) -> None:
    """Check, before a model is loaded, what can be known without it.

    Raises:
        ValueError: FlashInfer was asked for, and does not run on this device.
    """
    if name == "flashinfer" and device.type != "cuda":
        raise ValueError(
            f"attention='flashinfer' needs a CUDA device, and this is {device}; "
            "use attention='sdpa'"
        )


def open_attention(name: AttentionName, shape: AttentionShape, kv: KvLayer) -> AttentionBackend:
    """Make the backend and measure what sharing costs on it.

    Args:
        name: "auto" takes FlashInfer where it is installed and can run, else torch's kernels.
        shape: of model, pool and device.
        kv: a layer of the pool, which nobody uses yet: its first slots are written.

    Raises:
        ValueError: FlashInfer was asked for, and is not there or cannot do this.
    """
    missing = _missing(shape)
    if name == "flashinfer" and missing is not None:
        raise ValueError(f"attention='flashinfer' {missing}; use attention='sdpa'")
    cost = calibrated(
        kernels_for(shape.device),
        kv,
        n_slots=shape.n_slots,
        n_heads=shape.n_heads,
        n_kv_heads=shape.n_kv_heads,
        head_dim=shape.head_dim,
        dtype=shape.dtype,
        device=shape.device,
    ) or default_cost(shape.device)
    if name == "sdpa" or missing is not None:
        return SdpaAttention(sliding_window=shape.sliding_window, cost=cost)
    return FlashInferAttention(
        importlib.import_module("flashinfer"),
        n_heads=shape.n_heads,
        n_kv_heads=shape.n_kv_heads,
        head_dim=shape.head_dim,
        n_slots=shape.n_slots,
        dtype=shape.dtype,
        device=shape.device,
        sliding_window=shape.sliding_window,
        cost=cost,
    )


def _missing(shape: AttentionShape) -> str | None:
    """Say why FlashInfer cannot be used; None when it can."""
    if shape.device.type != "cuda":
        return f"needs a CUDA device, and this is {shape.device.type!r}"
    if importlib.util.find_spec("flashinfer") is None:
        return "needs the package flashinfer-python, which is not installed"
    if shape.dtype not in (torch.float16, torch.bfloat16):
        return f"needs float16 or bfloat16, and the model computes in {shape.dtype}"
    if shape.head_dim not in _FLASHINFER_HEAD_DIMS:
        return f"takes head_dim {_FLASHINFER_HEAD_DIMS}, and the model has {shape.head_dim}"
    if not shape.plain_pool:
        return "reads plain keys and values, and the pool stores them coded (kv_dtype)"
    return None
