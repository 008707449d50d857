"""The seam between the decoder and an attention implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from agentkit_runtime.attention.plan import AttentionPlan, Lane


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionStats:
    """What the planner decided since start. Keys are counted for one layer."""

    plans: int = 0
    shared_reads: int = 0
    """Common stretches that were read once for several lanes."""
    refused: int = 0
    """Common stretches whose sharing would have cost more than it saves."""
    parts: int = 0
    """Partial results of one layer."""
    saved_keys: int = 0
    """Keys that were not read again because of sharing."""

    def plus(self, plan: AttentionPlan) -> AttentionStats:
        """Return the counts with one more plan."""
        return AttentionStats(
            plans=self.plans + 1,
            shared_reads=self.shared_reads + plan.shared_reads,
            refused=self.refused + plan.refused,
            parts=self.parts + plan.n_parts,
            saved_keys=self.saved_keys + plan.saved_keys,
        )


class KvLayer(Protocol):
    """One layer of the KV pool, whatever format it stores."""

    def write(self, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store `k`, `v` [T, kv_heads, head_dim] in `slots` [T].

        Returns:
            What a later `read` of these slots gives, in the compute dtype: the same numbers in a
            format that loses nothing. Whoever attends to new tokens uses these, so that a result
            never depends on how a prompt was cut into chunks.
        """

    def queries(self, q: Tensor) -> Tensor:
        """Return `q` [T, heads, head_dim] in the basis of the keys that `write` and `read` give.

        A format may store keys turned by an orthogonal matrix. Scores are the same for queries that
        are turned, too; queries that are not have nothing to do with such keys.
        """

    def read(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        """Return keys and values [length, kv_heads, head_dim] of slots [start, start + length).

        In the compute dtype. Views of the pool where the format allows it: read only.
        """

    def gather(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [n, kv_heads, head_dim] of `slots` [n]: new tensors."""


class AttentionBackend(Protocol):
    """Computes attention for one layer, reading the pool by extents."""

    @property
    def stats(self) -> AttentionStats:
        """What was planned since start."""

    def plan(self, lanes: Sequence[Lane]) -> AttentionPlan:
        """Plan one step for `lanes`, which must be in `plan.lane_order`."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, kv: KvLayer, batch: ForwardBatch) -> Tensor:
        """Attend.

        Args:
            q: [T, heads, head_dim], with positions, and as `KvLayer.queries` gives it.
            k: [T, kv_heads, head_dim], rotated, already written to the pool, and as it returned it.
            v: as `k`.
            kv: this layer's pool.
            batch: the step's metadata.

        Returns:
            [T, heads, head_dim].
        """
