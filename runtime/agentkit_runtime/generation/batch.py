"""From the scheduler's chunks to the tensors of one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from agentkit_runtime.attention.base import AttentionBackend, ForwardBatch
from agentkit_runtime.attention.plan import Lane, lane_order
from agentkit_runtime.kv.extent import split, take
from agentkit_runtime.kv.tokens import TOKEN_BYTES, pack
from agentkit_runtime.sched.sequence import Chunk


@dataclass(frozen=True, slots=True)
class StepBatch:
    """A step's chunks in the order of the batch, and where their logits are."""

    chunks: tuple[Chunk, ...]
    first_rows: tuple[int | None, ...]
    """For each chunk its first row of the logits; None when no token is sampled behind it. One more
    row follows for each guess."""
    forward: ForwardBatch


def build_batch(
    chunks: Sequence[Chunk], attention: AttentionBackend, device: torch.device
) -> StepBatch:
    """Build the batch for `chunks`, whose slots are all held by their sequences' leases."""
    lanes = [_lane(chunk) for chunk in chunks]
    order = lane_order(lanes)
    chunks, lanes = [chunks[i] for i in order], [lanes[i] for i in order]
    logit_rows: list[int] = []
    first_rows: list[int | None] = []
    end = 0
    for chunk, lane in zip(chunks, lanes, strict=True):
        end += lane.n_new
        # At the last known token, and at each guess behind it.
        wanted = 1 + len(chunk.draft) if chunk.samples else 0
        first_rows.append(len(logit_rows) if wanted else None)
        logit_rows += range(end - wanted, end)
    return StepBatch(
        chunks=tuple(chunks),
        first_rows=tuple(first_rows),
        forward=ForwardBatch(
            token_ids=_token_ids(chunks).to(device),
            positions=_ranges([(lane.position, lane.n_new) for lane in lanes]).to(device),
            slots=_ranges([run for lane in lanes for run in lane.own]).to(device),
            logit_rows=torch.tensor(logit_rows, dtype=torch.int64, device=device),
            plan=attention.plan(lanes),
        ),
    )


def _lane(chunk: Chunk) -> Lane:
    lease = chunk.sequence.lease
    assert lease is not None, "a running sequence holds a lease"
    past, behind = split(lease.extents, chunk.start)
    return Lane(
        past=tuple(past),
        position=chunk.start,
        n_new=chunk.n_rows,
        own=tuple(take(behind, chunk.n_rows)),
    )


def _token_ids(chunks: Sequence[Chunk]) -> torch.Tensor:
    """[T] int64: known tokens, then drafted ones, of each chunk."""
    packed = bytearray()
    for chunk in chunks:
        start = chunk.start * TOKEN_BYTES
        packed += chunk.sequence.tokens[start : start + chunk.n * TOKEN_BYTES]
        if chunk.draft:
            packed += pack(chunk.draft)
    return torch.from_numpy(np.frombuffer(packed, "<i4").astype(np.int64))


def _ranges(runs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """[sum of lengths] int64: start, start + 1, ... of each (start, length)."""
    if all(length == 1 for _, length in runs):
        return torch.tensor([start for start, _ in runs])
    return torch.from_numpy(
        np.concatenate([np.arange(start, start + length) for start, length in runs])
    )
