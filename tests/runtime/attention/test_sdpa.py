"""Attention over extents equals plain attention over the same keys."""

from __future__ import annotations

import itertools

import pytest
import torch

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane, build_plan, lane_order
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.pool import FloatLayer

HEADS, KV_HEADS, DIM = 6, 2, 16


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[R, H, D] queries over [L, KVH, D] keys, one softmax, float64."""
    group = HEADS // KV_HEADS
    k, v = k.repeat_interleave(group, 1).double(), v.repeat_interleave(group, 1).double()
    scores = torch.einsum("rhd,lhd->hrl", q.double(), k) / DIM**0.5
    scores = scores.masked_fill(~mask[None], float("-inf"))
    return torch.einsum("hrl,lhd->rhd", scores.softmax(-1), v)


@pytest.mark.parametrize("window", [None, 5, 40])
@pytest.mark.parametrize("seed", range(4))
def test_a_mixed_batch_equals_plain_attention(seed: int, window: int | None) -> None:
    torch.manual_seed(seed)
    shared = Extent(10, 70)
    lanes = [
        Lane(past=(shared, Extent(100, 9)), position=79, n_new=1, own=(Extent(109, 1),)),
        Lane(past=(shared, Extent(150, 3)), position=73, n_new=6, own=(Extent(153, 6),)),
        Lane(past=(Extent(10, 40), Extent(200, 1)), position=41, n_new=1, own=(Extent(300, 1),)),
        Lane(past=(), position=0, n_new=12, own=(Extent(320, 12),)),
        Lane(past=(), position=0, n_new=1, own=(Extent(340, 1),)),
    ]
    lanes = [lanes[i] for i in lane_order(lanes)]
    keys, values = torch.randn(2, 400, KV_HEADS, DIM)
    n_rows = sum(lane.n_new for lane in lanes)
    q = torch.randn(n_rows, HEADS, DIM)
    slots = torch.tensor([s for lane in lanes for e in lane.own for s in range(e.start, e.end)])
    positions = torch.tensor([lane.position + i for lane in lanes for i in range(lane.n_new)])
    batch = ForwardBatch(
        token_ids=torch.zeros(n_rows, dtype=torch.int64),
        positions=positions,
        slots=slots,
        logit_rows=torch.arange(n_rows),
        plan=build_plan(lanes),
    )
    backend = SdpaAttention(sliding_window=window)
    out = backend.attend(q, keys[slots], values[slots], FloatLayer(keys, values), batch)

    rows = itertools.accumulate((lane.n_new for lane in lanes), initial=0)
    for lane, row in zip(lanes, rows, strict=False):
        own = [s for e in lane.past + lane.own for s in range(e.start, e.end)]
        q_pos = positions[row : row + lane.n_new]
        k_pos = torch.arange(len(own))
        mask = k_pos[None] <= q_pos[:, None]
        if window is not None:
            mask &= k_pos[None] > q_pos[:, None] - window
        expected = plain(q[row : row + lane.n_new], keys[own], values[own], mask)
        torch.testing.assert_close(
            out[row : row + lane.n_new].double(), expected, atol=1e-5, rtol=1e-5
        )
