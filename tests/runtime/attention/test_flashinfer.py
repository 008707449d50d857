"""What FlashInfer is told, with plain attention in its place.

The stand-in follows the package's documented calls: page tables by indptr, causal from the last row
up, log-sum-exp to the base of 2, levels of which only the last is causal.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentkit_runtime.attention.cascade import MAX_LEVELS, plan_cascade
from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.flashinfer import FlashInferAttention
from agentkit_runtime.attention.plan import build_plan
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.attention.select import AttentionName, AttentionShape, open_attention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.pool import FloatLayer
from tests.runtime.attention.lanes import ALONE, COSTS, GREEDY, batches, in_order, lane, n_slots
from tests.runtime.attention.oracle import Case, check

LONGEST, MOST_NEW = 40, 20
N_SLOTS = n_slots(LONGEST, MOST_NEW)


class PagedWrapper:
    """`flashinfer.BatchPrefillWithPagedKVCacheWrapper`."""

    def __init__(self, workspace: Tensor, kv_layout: str) -> None:
        assert workspace.dtype == torch.uint8
        assert kv_layout == "NHD"
        self.plans = 0

    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool = False,
        window_left: int = -1,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        tables = (qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        assert all(table.dtype == torch.int32 for table in tables)
        assert len(qo_indptr) == len(paged_kv_indptr) == len(paged_kv_last_page_len) + 1
        assert page_size == 1
        # A page holds one token, and a request without pages has no last one.
        sizes = (paged_kv_indptr.diff() - 1).clamp(min=0) * page_size + paged_kv_last_page_len
        assert torch.equal(sizes, paged_kv_indptr.diff())
        self._tables = tables
        self._heads = (num_qo_heads, num_kv_heads, head_dim_qk)
        self._causal, self._window = causal, window_left
        self.plans += 1

    def run(
        self, q: Tensor, paged_kv_cache: tuple[Tensor, Tensor], *, return_lse: bool = False
    ) -> Any:
        keys, values = (cache.squeeze(1) for cache in paged_kv_cache)
        rows, ends, pages, _ = self._tables
        assert int(rows[-1]) == len(q)
        assert (q.shape[1], keys.shape[1], keys.shape[2]) == self._heads
        outs, lses = [], []
        for i in range(len(rows) - 1):
            taken = pages[int(ends[i]) : int(ends[i + 1])].long()
            part = q[int(rows[i]) : int(rows[i + 1])]
            out, lse = self._one(part, keys[taken], values[taken])
            outs.append(out)
            lses.append(lse)
        out, lse = torch.cat(outs), torch.cat(lses)
        return (out, lse) if return_lse else out

    def _one(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        group = q.shape[1] // k.shape[1]
        k, v = (x.float().repeat_interleave(group, 1) for x in (k, v))
        scores = torch.einsum("nhd,lhd->nhl", q.float(), k) * q.shape[-1] ** -0.5
        at = torch.arange(len(q))[:, None] + len(k) - len(q)
        seen = torch.ones(len(q), len(k), dtype=torch.bool)
        if self._causal:
            seen &= torch.arange(len(k))[None] <= at
        if self._window >= 0:
            seen &= torch.arange(len(k))[None] >= at - self._window
        scores = scores.masked_fill(~seen[:, None], float("-inf"))
        lse = scores.logsumexp(-1)
        weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0.0)[..., None])
        return torch.einsum("nhl,lhd->nhd", weights, v), lse / math.log(2)


class CascadeWrapper:
    """`flashinfer.MultiLevelCascadeAttentionWrapper`."""

    def __init__(self, num_levels: int, workspace: Tensor, kv_layout: str) -> None:
        self._levels = [PagedWrapper(workspace, kv_layout) for _ in range(num_levels)]

    def plan(
        self,
        qo_indptr_arr: list[Tensor],
        paged_kv_indptr_arr: list[Tensor],
        paged_kv_indices_arr: list[Tensor],
        paged_kv_last_page_len: list[Tensor],
        *heads: int,
        causal: bool = False,
        **options: Any,
    ) -> None:
        tables = (
            qo_indptr_arr, paged_kv_indptr_arr, paged_kv_indices_arr, paged_kv_last_page_len,
        )  # fmt: skip
        for level, table in zip(self._levels, zip(*tables, strict=True), strict=True):
            level.plan(*table, *heads, causal=causal and level is self._levels[-1], **options)

    def run(self, q: Tensor, paged_kv_cache: tuple[Tensor, Tensor]) -> Tensor:
        out, lse = self._levels[-1].run(q, paged_kv_cache, return_lse=True)
        for level in self._levels[:-1]:
            other, other_lse = level.run(q, paged_kv_cache, return_lse=True)
            most = torch.maximum(lse, other_lse)
            a, b = torch.exp2(lse - most)[..., None], torch.exp2(other_lse - most)[..., None]
            out, lse = (out * a + other * b) / (a + b), most + torch.log2(a + b)[..., 0]
        return out


class FakeFlashInfer:
    BatchPrefillWithPagedKVCacheWrapper = PagedWrapper
    MultiLevelCascadeAttentionWrapper = CascadeWrapper


def backend(case: Case, cost: AttentionCost) -> FlashInferAttention:
    return FlashInferAttention(
        FakeFlashInfer,
        n_heads=2 * case.group,
        n_kv_heads=2,
        head_dim=case.head_dim,
        n_slots=case.n_slots,
        dtype=torch.float32,
        device=torch.device("cpu"),
        sliding_window=case.window,
        cost=cost,
    )


@given(
    st.builds(
        Case,
        lanes=batches(longest=LONGEST, most_new=MOST_NEW),
        n_slots=st.just(N_SLOTS),
        group=st.sampled_from([1, 4]),
        head_dim=st.just(16),
        window=st.one_of(st.none(), st.integers(1, 80)),
        seed=st.integers(0, 9),
    ),
    st.sampled_from(COSTS),
)
def test_any_batch_equals_plain_attention(case: Case, cost: AttentionCost) -> None:
    """R35."""
    check(case, backend(case, cost))


TEAM = in_order(
    [
        lane((0, 30), (40, 8), (60, 3), own=(80, 1)),
        lane((0, 30), (40, 8), n_new=2, own=(82, 2)),
        lane((0, 30), (50, 4), own=(84, 1)),
        lane((100, 9), own=(120, 1)),
    ]
)


def test_shared_prefixes_are_levels_of_requests_over_all_rows() -> None:
    """R35. Two levels of sharing, and one of what each lane has alone."""
    plan = plan_cascade(TEAM, GREEDY)
    top, middle, own = plan.levels
    assert top.rows == (0, 4, 5)
    assert top.keys == ((Extent(0, 30),), ())
    assert middle.rows == (0, 3, 5)
    assert middle.keys == ((Extent(40, 8),), ())
    assert own.rows == (0, 2, 3, 4, 5)
    assert own.keys[0] == (Extent(82, 2),)
    assert own.keys[1] == (Extent(60, 3), Extent(80, 1))
    assert (plan.shared_reads, plan.saved_keys) == (2, 2 * 30 + 8)


def test_where_sharing_does_not_pay_there_is_one_level() -> None:
    """R35."""
    plan = plan_cascade(TEAM, ALONE)
    assert len(plan.levels) == 1
    assert plan.shared_reads == 0
    assert plan.refused == 2


def test_a_window_that_hides_keys_shares_nothing() -> None:
    plan = plan_cascade(TEAM, GREEDY, window=20)
    assert len(plan.levels) == 1
    assert plan.window_left == 19
    assert plan_cascade(TEAM, GREEDY, window=100).window_left == -1


def test_a_deep_tree_has_a_bounded_number_of_levels() -> None:
    depth = 9
    path = [(20 * i, 15) for i in range(depth)]
    lanes = in_order(
        [lane(*path[: i + 1], (500 + 20 * i, 1), own=(900 + 2 * i, 1)) for i in range(depth)]
    )
    plan = plan_cascade(lanes, GREEDY)
    assert len(plan.levels) == MAX_LEVELS
    case = Case(lanes=lanes, n_slots=1000, group=2, head_dim=16, window=None, seed=0)
    check(case, backend(case, GREEDY))


def test_a_step_is_planned_once_for_all_layers() -> None:
    case = Case(lanes=TEAM, n_slots=200, group=1, head_dim=16, window=None, seed=0)
    attention = backend(case, ALONE)
    batch = case.batch(attention.plan(TEAM))
    q, k = torch.randn(5, 2, 16), torch.randn(5, 2, 16)
    layer = FloatLayer(*torch.randn(2, 200, 2, 16))
    for _ in range(3):
        attention.attend(q, k, k, layer, batch)
    assert attention._wrapper(1).plans == 1


def test_a_plan_of_another_backend_is_refused() -> None:
    case = Case(lanes=TEAM, n_slots=200, group=1, head_dim=16, window=None, seed=0)
    q = torch.randn(5, 2, 16)
    with pytest.raises(TypeError, match="this backend's own"):
        backend(case, ALONE).attend(q, q, q, FloatLayer(q, q), case.batch(build_plan(TEAM)))


def shape(**changes: Any) -> AttentionShape:
    values: dict[str, Any] = {
        "n_heads": 4,
        "n_kv_heads": 2,
        "head_dim": 64,
        "sliding_window": None,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "n_slots": 32,
        "plain_pool": True,
    }
    return AttentionShape(**(values | changes))


@pytest.mark.parametrize("name", ["auto", "sdpa"])
def test_without_a_gpu_torch_computes(name: AttentionName) -> None:
    layer = FloatLayer(*torch.zeros(2, 32, 2, 64, dtype=torch.float16))
    assert isinstance(open_attention(name, shape(), layer), SdpaAttention)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "needs a CUDA device"),
        ({"device": torch.device("cuda")}, "not installed"),
    ],
)
def test_flashinfer_where_it_cannot_run_is_an_error_that_says_why(
    changes: dict[str, Any], reason: str
) -> None:
    layer = FloatLayer(*torch.zeros(2, 32, 2, 64, dtype=torch.float16))
    with pytest.raises(ValueError, match=f"{reason}.*use attention='sdpa'"):
        open_attention("flashinfer", shape(**changes), layer)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": torch.float32}, "needs float16 or bfloat16"),
        ({"head_dim": 80}, "takes head_dim"),
        ({"plain_pool": False}, "kv_dtype"),
    ],
)
def test_what_flashinfer_does_not_take_is_named(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    layer = FloatLayer(*torch.zeros(2, 32, 2, 64, dtype=torch.float16))
    with pytest.raises(ValueError, match=reason):
        open_attention("flashinfer", shape(device=torch.device("cuda"), **changes), layer)


def test_rows_of_every_level_cover_the_batch() -> None:
    for level in plan_cascade(TEAM, GREEDY).levels:
        assert len(level.keys) == len(level.rows) - 1
        assert all(a < b for a, b in itertools.pairwise(level.rows))
        assert level.rows[-1] == 5
