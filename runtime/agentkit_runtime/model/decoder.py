"""The Llama-family decoder: one forward pass over a batch of lanes."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from agentkit_runtime.attention.base import AttentionBackend, ForwardBatch, KvLayer
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.norm import RmsNorm
from agentkit_runtime.model.rope import RopeTable, rotate
from agentkit_runtime.model.weights import DecoderWeights, LayerWeights


class KvLayers(Protocol):
    """The KV pool, layer by layer."""

    def layer(self, index: int) -> KvLayer:
        """Return one layer's keys and values."""


class _Layer:
    """One layer's weights, with its norms ready to run."""

    __slots__ = ("attn_norm", "k_norm", "mlp_norm", "q_norm", "rotates", "weights")

    def __init__(self, config: ModelConfig, index: int, weights: LayerWeights) -> None:
        def norm(weight: Tensor | None) -> RmsNorm | None:
            return None if weight is None else RmsNorm(weight, config.rms_eps)

        self.weights = weights
        self.rotates = index not in config.no_rope_layers
        self.attn_norm = RmsNorm(weights.attn_norm, config.rms_eps)
        self.mlp_norm = RmsNorm(weights.mlp_norm, config.rms_eps)
        self.q_norm = norm(weights.q_norm)
        self.k_norm = norm(weights.k_norm)


class Decoder:
    """Llama, Mistral, Qwen2, Qwen3 and SmolLM3: they differ only by what `ModelConfig` says."""

    def __init__(
        self, config: ModelConfig, weights: DecoderWeights, attention: AttentionBackend
    ) -> None:
        self.config = config
        self._weights = weights
        self.attention = attention
        self._rope = RopeTable(config, device=weights.embed.device)
        self._layers = tuple(_Layer(config, i, layer) for i, layer in enumerate(weights.layers))
        self._final_norm = RmsNorm(weights.final_norm, config.rms_eps)

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, kv: KvLayers) -> Tensor:
        """Run the batch, write its keys and values to the pool, and return logits.

        Returns:
            [R, vocab] float32 logits of `batch.logit_rows`.
        """
        hidden = self._weights.embed.rows(batch.token_ids)
        cos, sin = self._rope.at(batch.positions)
        for index, layer in enumerate(self._layers):
            hidden = hidden + self._attend(hidden, layer, cos, sin, kv.layer(index), batch)
            hidden = hidden + self._mlp(hidden, layer)
        if batch.logit_rows.numel() != hidden.shape[0]:
            hidden = hidden.index_select(0, batch.logit_rows)
        hidden = self._final_norm(hidden)
        return self._weights.lm_head(hidden).float()

    def _attend(
        self,
        hidden: Tensor,
        layer: _Layer,
        cos: Tensor,
        sin: Tensor,
        pool: KvLayer,
        batch: ForwardBatch,
    ) -> Tensor:
        config = self.config
        n_rows = hidden.shape[0]
        qkv = layer.weights.qkv(layer.attn_norm(hidden))
        heads = qkv.view(n_rows, config.n_heads + 2 * config.n_kv_heads, config.head_dim)
        qk, v = heads.tensor_split((config.n_heads + config.n_kv_heads,), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = qk.tensor_split((config.n_heads,), dim=1)
            qk = torch.cat((layer.q_norm(q), layer.k_norm(k)), dim=1)
        if layer.rotates:
            qk = rotate(qk, cos, sin)  # queries and keys are neighbours in the fused product
        q, k = qk.tensor_split((config.n_heads,), dim=1)
        k, v = pool.write(batch.slots, k, v)
        q = pool.queries(q)
        mixed = self.attention.attend(q, k, v, pool, batch)
        return layer.weights.out(mixed.reshape(n_rows, -1))

    def _mlp(self, hidden: Tensor, layer: _Layer) -> Tensor:
        gate_up = layer.weights.gate_up(layer.mlp_norm(hidden))
        gate, up = gate_up.chunk(2, dim=-1)
        return layer.weights.down(functional.silu(gate).mul_(up))
