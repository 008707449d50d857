"""The Llama-family decoder: one forward pass over a batch of lanes."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from agentkit_runtime.attention.base import AttentionBackend, ForwardBatch, KvLayer
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.rope import RopeTable, rotate
from agentkit_runtime.model.weights import DecoderWeights, LayerWeights


class KvLayers(Protocol):
    """The KV pool, layer by layer."""

    def layer(self, index: int) -> KvLayer:
        """Return one layer's keys and values."""


class Decoder:
    """Llama, Mistral, Qwen2 and Qwen3: they differ only by what `ModelConfig` says."""

    def __init__(
        self, config: ModelConfig, weights: DecoderWeights, attention: AttentionBackend
    ) -> None:
        self.config = config
        self._weights = weights
        self.attention = attention
        self._rope = RopeTable(config, device=weights.embed.device)

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, kv: KvLayers) -> Tensor:
        """Run the batch, write its keys and values to the pool, and return logits.

        Returns:
            [R, vocab] float32 logits of `batch.logit_rows`.
        """
        hidden = self._weights.embed.rows(batch.token_ids)
        cos, sin = self._rope.at(batch.positions)
        for index, layer in enumerate(self._weights.layers):
            hidden = hidden + self._attend(hidden, layer, cos, sin, kv.layer(index), batch)
            hidden = hidden + self._mlp(hidden, layer)
        if batch.logit_rows.numel() != hidden.shape[0]:
            hidden = hidden.index_select(0, batch.logit_rows)
        hidden = self._norm(hidden, self._weights.final_norm)
        return self._weights.lm_head(hidden).float()

    def _attend(
        self,
        hidden: Tensor,
        layer: LayerWeights,
        cos: Tensor,
        sin: Tensor,
        pool: KvLayer,
        batch: ForwardBatch,
    ) -> Tensor:
        config = self.config
        n_rows = hidden.shape[0]
        qkv = layer.qkv(self._norm(hidden, layer.attn_norm))
        heads = qkv.view(n_rows, config.n_heads + 2 * config.n_kv_heads, config.head_dim)
        v = heads[:, config.n_heads + config.n_kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            q = self._norm(heads[:, : config.n_heads], layer.q_norm)
            k = self._norm(
                heads[:, config.n_heads : config.n_heads + config.n_kv_heads], layer.k_norm
            )
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        else:
            # One rotation for queries and keys: they are neighbours in the fused product.
            rotated = rotate(heads[:, : config.n_heads + config.n_kv_heads], cos, sin)
            q, k = rotated[:, : config.n_heads], rotated[:, config.n_heads :]
        k, v = pool.write(batch.slots, k, v)
        q = pool.queries(q)
        mixed = self.attention.attend(q, k, v, pool, batch)
        return layer.out(mixed.reshape(n_rows, -1))

    def _mlp(self, hidden: Tensor, layer: LayerWeights) -> Tensor:
        gate_up = layer.gate_up(self._norm(hidden, layer.mlp_norm))
        gate, up = gate_up.chunk(2, dim=-1)
        return layer.down(functional.silu(gate).mul_(up))

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(hidden, (hidden.shape[-1],), weight, self.config.rms_eps)
