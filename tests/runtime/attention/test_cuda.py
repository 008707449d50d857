"""What the CUDA kernels hand to FlashAttention, with plain attention in its place."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.cuda import CudaKernels
from agentkit_runtime.attention.kernels import Packed
from agentkit_runtime.attention.sdpa import SdpaAttention
from tests.runtime.attention.lanes import COSTS, GREEDY, batches, in_order, lane, n_slots
from tests.runtime.attention.oracle import Case, check

LONGEST, MOST_NEW = 40, 20


class FakeFlash:
    """`FlashForward` as its docstring says it, in float32."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, bool]] = []

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, lanes: Packed | None
    ) -> tuple[Tensor, Tensor]:
        assert q.dtype in (torch.bfloat16, torch.float16)
        assert q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
        self.calls.append((causal, lanes is not None))
        if lanes is None:
            pairs = [attend(*rows, causal) for rows in zip(q, k, v, strict=True)]
            outs, lses = zip(*pairs, strict=True)
            return torch.stack(outs), torch.stack(lses)
        assert lanes.rows.dtype == lanes.keys.dtype == torch.int32
        assert (int(lanes.rows[-1]), int(lanes.keys[-1])) == (len(q), len(k))
        assert int(lanes.rows.diff().max()) == lanes.max_rows
        assert int(lanes.keys.diff().max()) == lanes.max_keys
        outs, lses = [], []
        for i in range(len(lanes.rows) - 1):
            rows = slice(int(lanes.rows[i]), int(lanes.rows[i + 1]))
            keys = slice(int(lanes.keys[i]), int(lanes.keys[i + 1]))
            out, lse = attend(q[rows], k[keys], v[keys], causal)
            outs.append(out)
            lses.append(lse)
        return torch.cat(outs), torch.cat(lses, dim=1)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """q [N, H, D], k, v [L, KVH, D] -> out like q, lse [H, N]; causal from the last row up."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.float().repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("nhd,lhd->hnl", q.float(), keys) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(len(q), len(k), dtype=torch.bool).triu(len(k) - len(q) + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    out = torch.einsum("hnl,lhd->nhd", scores.softmax(-1), values)
    return out.to(q.dtype), scores.logsumexp(-1)


@settings(max_examples=50)
@given(
    st.builds(
        Case,
        lanes=batches(longest=LONGEST, most_new=MOST_NEW),
        n_slots=st.just(n_slots(LONGEST, MOST_NEW)),
        group=st.sampled_from([1, 2, 4]),
        head_dim=st.sampled_from([16, 64]),
        window=st.one_of(st.none(), st.integers(1, 60)),
        seed=st.integers(0, 9),
    ),
    st.sampled_from(COSTS),
)
def test_any_batch_equals_plain_attention(case: Case, cost: AttentionCost) -> None:
    """R35."""
    backend = SdpaAttention(sliding_window=case.window, cost=cost, kernels=CudaKernels(FakeFlash()))
    check(case, backend, dtype=torch.bfloat16, atol=0.03)


@pytest.mark.parametrize(
    ("dtype", "head_dim"), [(torch.float32, 64), (torch.float16, 12), (torch.float16, 320)]
)
def test_what_flash_attention_does_not_take_goes_to_the_reference(
    dtype: torch.dtype, head_dim: int
) -> None:
    flash = FakeFlash()
    lanes = in_order(
        [lane((0, 90), (100, 5), own=(110, 1)), lane((0, 90), n_new=20, own=(120, 20))]
    )
    case = Case(lanes=lanes, n_slots=200, group=2, head_dim=head_dim, window=None, seed=0)
    backend = SdpaAttention(cost=GREEDY, kernels=CudaKernels(flash))
    check(case, backend, dtype=dtype, atol=0.01)
    assert flash.calls == []


def test_tails_of_all_lanes_are_one_packed_launch() -> None:
    flash = FakeFlash()
    lanes = in_order(
        [lane((0, 500), (600 + 50 * i, 5 + 7 * i), own=(900 + i, 1)) for i in range(4)]
    )
    case = Case(lanes=lanes, n_slots=1000, group=2, head_dim=64, window=None, seed=0)
    check(case, SdpaAttention(kernels=CudaKernels(flash)), dtype=torch.float16, atol=0.01)
    assert flash.calls == [(False, False), (False, True)]
