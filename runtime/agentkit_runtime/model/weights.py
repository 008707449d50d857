"""A checkpoint's tensors, fused and laid out for the decoder.

Q, K and V become one product, gate and up another: on CPU a decode step is bound by the number of
operators, not by arithmetic. Projections are stored as [out, in], like torch's `linear`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.model.config import ModelConfig


class TensorSource(Protocol):
    """What `load_weights` reads from: float32 tensors under their canonical names."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""

    def has(self, name: str) -> bool:
        """Tell whether the checkpoint has the tensor."""

    def tensor(self, name: str) -> Tensor:
        """Read one tensor as float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One decoder layer. Norm weights stay float32-precise in the model's dtype."""

    attn_norm: Tensor
    qkv: Tensor
    """[(heads + 2 kv_heads) * head_dim, hidden]."""
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    """[hidden, heads * head_dim]."""
    mlp_norm: Tensor
    gate_up: Tensor
    """[2 * intermediate, hidden]: gate rows, then up rows."""
    down: Tensor
    """[hidden, intermediate]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All tensors of a decoder, on one device and in one dtype."""

    embed: Tensor
    """[vocab, hidden]."""
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    lm_head: Tensor
    """[vocab, hidden]; the same storage as `embed` when tied."""


def load_weights(
    source: TensorSource, *, device: torch.device, dtype: torch.dtype
) -> DecoderWeights:
    """Read a checkpoint, one tensor at a time so that the peak stays near the final size."""
    config = source.config

    def read(name: str, *shape: int) -> Tensor:
        tensor = source.tensor(name)
        if tuple(tensor.shape) != shape:
            raise UnsupportedModel(
                f"tensor {name!r} has shape {tuple(tensor.shape)}, the model's config says {shape}"
            )
        return tensor.to(device=device, dtype=dtype)

    embed = read("model.embed_tokens.weight", config.vocab, config.hidden)
    head = embed
    if not config.tied_embeddings:
        head = read("lm_head.weight", config.vocab, config.hidden)
    return DecoderWeights(
        embed=embed,
        layers=tuple(_layer(config, source, read, i) for i in range(config.n_layers)),
        final_norm=read("model.norm.weight", config.hidden),
        lm_head=head,
    )


def _layer(
    config: ModelConfig, source: TensorSource, read: Callable[..., Tensor], index: int
) -> LayerWeights:
    prefix = f"model.layers.{index}."
    q_rows, kv_rows = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim

    def fused(stem: str, rows: dict[str, int], *columns: int) -> Tensor:
        parts = [read(prefix + stem.format(part), n, *columns) for part, n in rows.items()]
        return torch.cat(parts).contiguous()

    qkv_rows = {"q": q_rows, "k": kv_rows, "v": kv_rows}
    mlp_rows = {"gate": config.intermediate, "up": config.intermediate}
    bias = config.qkv_bias and source.has(prefix + "self_attn.q_proj.bias")
    return LayerWeights(
        attn_norm=read(prefix + "input_layernorm.weight", config.hidden),
        qkv=fused("self_attn.{}_proj.weight", qkv_rows, config.hidden),
        qkv_bias=fused("self_attn.{}_proj.bias", qkv_rows) if bias else None,
        q_norm=read(prefix + "self_attn.q_norm.weight", config.head_dim)
        if config.qk_norm
        else None,
        k_norm=read(prefix + "self_attn.k_norm.weight", config.head_dim)
        if config.qk_norm
        else None,
        out=read(prefix + "self_attn.o_proj.weight", config.hidden, q_rows),
        mlp_norm=read(prefix + "post_attention_layernorm.weight", config.hidden),
        gate_up=fused("mlp.{}_proj.weight", mlp_rows, config.hidden),
        down=read(prefix + "mlp.down_proj.weight", config.hidden, config.intermediate),
    )
