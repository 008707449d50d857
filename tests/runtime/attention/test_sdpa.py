"""Attention over extents equals plain attention over the same keys."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.kernels import Kernels, ReferenceKernels
from agentkit_runtime.attention.plan import Lane
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.pool import FloatLayer, KvStorage
from tests.runtime.attention.lanes import COSTS, GREEDY, batches, in_order, n_slots
from tests.runtime.attention.oracle import Case, check

LONGEST, MOST_NEW = 60, 24
CASES = st.builds(
    Case,
    lanes=batches(longest=LONGEST, most_new=MOST_NEW),
    n_slots=st.just(n_slots(LONGEST, MOST_NEW)),
    group=st.sampled_from([1, 2, 4, 8]),
    head_dim=st.sampled_from([16, 64, 80, 128]),
    window=st.one_of(st.none(), st.integers(1, 100)),
    seed=st.integers(0, 9),
)


@given(CASES, st.sampled_from(COSTS))
def test_any_batch_equals_plain_attention(case: Case, cost: AttentionCost) -> None:
    """R35."""
    check(case, SdpaAttention(sliding_window=case.window, cost=cost))


@given(CASES, st.sampled_from(COSTS))
def test_the_reference_kernels_equal_plain_attention(case: Case, cost: AttentionCost) -> None:
    backend = SdpaAttention(sliding_window=case.window, cost=cost, kernels=ReferenceKernels())
    check(case, backend)


@pytest.mark.parametrize("kernels", [None, ReferenceKernels()])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_precision(dtype: torch.dtype, kernels: Kernels | None) -> None:
    """R35. The merge is done in float32: parts cost no more than their own rounding."""
    for window in (None, 50):
        case = Case(lanes=TEAM, n_slots=700, group=3, head_dim=64, window=window, seed=1)
        check(
            case,
            SdpaAttention(sliding_window=window, cost=GREEDY, kernels=kernels),
            dtype=dtype,
            atol=0.02,
        )


TEAM = in_order(
    [
        Lane(past=(Extent(0, 300), Extent(310, 9)), position=309, n_new=1, own=(Extent(319, 1),)),
        Lane(past=(Extent(0, 300), Extent(330, 40)), position=340, n_new=6, own=(Extent(370, 6),)),
        Lane(past=(Extent(0, 40), Extent(400, 1)), position=41, n_new=1, own=(Extent(450, 1),)),
        Lane(past=(Extent(0, 300),), position=300, n_new=30, own=(Extent(500, 30),)),
        Lane(past=(), position=0, n_new=1, own=(Extent(540, 1),)),
    ]
)
"""Agents on one prefix, one that left it early, one with a new chunk, and a stranger."""


@pytest.mark.parametrize("kv_format", list(KvFormat))
def test_a_coded_pool_is_read_as_it_is_written(kv_format: KvFormat) -> None:
    """R35. Shared and gathered reads give what a lane alone would get, whatever the format."""
    for cost in COSTS:
        case = Case(lanes=TEAM, n_slots=700, group=2, head_dim=64, window=None, seed=3)
        storage = KvStorage(
            n_layers=1, n_slots=case.n_slots, n_kv_heads=2, head_dim=64, kv_format=kv_format
        )
        check(case, SdpaAttention(cost=cost), kv=storage.layer(0))


def _slot(start: int) -> tuple[Extent, ...]:
    return (Extent(start, 1),)


def test_padding_never_reads_a_slot_that_was_not_computed() -> None:
    """Free slots hold garbage, also NaN."""
    lanes = in_order(
        [
            Lane(past=(Extent(10 + 40 * i, 5 + i),), position=5 + i, n_new=1, own=_slot(250 + i))
            for i in range(4)
        ]
    )
    used = [s for lane in lanes for e in (*lane.past, *lane.own) for s in range(e.start, e.end)]
    torch.manual_seed(0)
    keys, values = torch.full((2, 300, 2, 16), float("nan"))
    keys[used], values[used] = torch.randn(2, len(used), 2, 16)
    case = Case(lanes=lanes, n_slots=300, group=2, head_dim=16, window=None, seed=0)
    check(case, SdpaAttention(), kv=FloatLayer(keys, values), fill=False)


def test_a_pool_of_floats_is_not_copied_where_lanes_share() -> None:
    """The reads of a shared prefix are views of the pool. Who has only its front copies that."""
    layer = _Watched(*torch.randn(2, 700, 2, 64))
    case = Case(lanes=TEAM, n_slots=700, group=2, head_dim=64, window=None, seed=0)
    backend = SdpaAttention()
    q, k = torch.randn(39, 4, 64), torch.randn(39, 2, 64)
    backend.attend(q, k, k, layer, case.batch(backend.plan(TEAM)))
    assert (0, 300) in layer.reads
    assert layer.gathered
    assert not set(range(40, 300)) & layer.gathered


class _Watched(FloatLayer):
    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__(keys, values)
        self.reads: list[tuple[int, int]] = []
        self.gathered: set[int] = set()

    def read(self, start: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.reads.append((start, length))
        return super().read(start, length)

    def gather(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.gathered |= set(slots.tolist())
        return super().gather(slots)


def test_the_backend_counts_what_it_decided() -> None:
    """R35: sharing that never happens is seen in the counts."""
    backend = SdpaAttention(cost=GREEDY)
    plan = backend.plan(TEAM)
    backend.plan(TEAM)
    assert plan.shared_reads == 2
    assert backend.stats.plans == 2
    assert backend.stats.shared_reads == 4
    assert backend.stats.saved_keys == 2 * (3 * 40 + 2 * 260)
    assert backend.stats.parts == 2 * (len(plan.reads) + len(plan.gathers) + len(plan.causal))


def test_a_plan_is_compiled_once_for_all_layers() -> None:
    backend = SdpaAttention()
    case = Case(lanes=TEAM, n_slots=700, group=2, head_dim=64, window=None, seed=0)
    batch: ForwardBatch = case.batch(backend.plan(TEAM))
    layer = FloatLayer(*torch.randn(2, 700, 2, 64))
    q, k = torch.randn(39, 4, 64), torch.randn(39, 2, 64)
    backend.attend(q, k, k, layer, batch)
    compiled = backend.compiled
    backend.attend(q, k, k, layer, batch)
    assert backend.compiled is compiled
