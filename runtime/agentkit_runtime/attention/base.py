"""The seam between the decoder and an attention implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from agentkit_runtime.attention.plan import AttentionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBatch:
    """Everything one forward pass needs beside the weights and the KV pool. Passed, never global.

    T is the number of new tokens of all lanes, in lane order.
    """

    token_ids: Tensor
    """[T] int64."""
    positions: Tensor
    """[T] int64, position of each token in its sequence."""
    slots: Tensor
    """[T] int64, KV slot each token is written to."""
    logit_rows: Tensor
    """[R] int64, the rows whose logits are wanted."""
    plan: AttentionPlan


class AttentionBackend(Protocol):
    """Computes attention for one layer, reading the pool by extents."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, batch: ForwardBatch
    ) -> Tensor:
        """Attend.

        Args:
            q: [T, heads, head_dim], rotated.
            k: [T, kv_heads, head_dim], rotated, already written to the pool.
            v: [T, kv_heads, head_dim], already written to the pool.
            keys: [slots, kv_heads, head_dim], this layer's pool.
            values: as `keys`.
            batch: the step's metadata.

        Returns:
            [T, heads, head_dim].
        """
