"""Plain attention in float64, and how a backend is held against it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentkit_runtime.attention.base import AttentionBackend, ForwardBatch, KvLayer
from agentkit_runtime.attention.plan import AttentionPlan, Lane
from agentkit_runtime.kv.pool import FloatLayer

KV_HEADS = 2


@dataclass(frozen=True, kw_only=True)
class Case:
    """A batch and the shape of the model that computes it."""

    lanes: list[Lane]
    n_slots: int
    group: int
    head_dim: int
    window: int | None
    seed: int

    @property
    def slots(self) -> Tensor:
        """Slots of new tokens."""
        return torch.tensor([slot for lane in self.lanes for slot in slots_of(lane.own)])

    def batch(self, plan: AttentionPlan) -> ForwardBatch:
        """What a backend gets."""
        positions = torch.tensor(
            [lane.position + i for lane in self.lanes for i in range(lane.n_new)]
        )
        return ForwardBatch(
            token_ids=torch.zeros_like(positions),
            positions=positions,
            slots=self.slots,
            logit_rows=torch.arange(len(positions)),
            plan=plan,
        )


def check(
    case: Case,
    backend: AttentionBackend,
    *,
    kv: KvLayer | None = None,
    dtype: torch.dtype = torch.float32,
    atol: float = 1e-5,
    fill: bool = True,
) -> None:
    """Assert that `backend` gives what one softmax over each row's keys gives.

    `kv` must be empty unless `fill` is False; then it holds the keys, new tokens' too.
    """
    torch.manual_seed(case.seed)
    kv = kv or FloatLayer(*torch.zeros(2, case.n_slots, KV_HEADS, case.head_dim, dtype=dtype))
    if fill:
        noise = torch.randn(2, case.n_slots, KV_HEADS, case.head_dim).to(dtype)
        kv.write(torch.arange(case.n_slots), *noise)
    batch = case.batch(backend.plan(case.lanes))
    q = torch.randn(len(case.slots), KV_HEADS * case.group, case.head_dim).to(dtype)
    k, v = kv.gather(case.slots)
    out = backend.attend(q, k, v, kv, batch)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), plain(case, q, kv), atol=atol, rtol=atol)


def plain(case: Case, q: Tensor, kv: KvLayer) -> Tensor:
    """[T, H, D] float64."""
    outs: list[Tensor] = []
    row = 0
    for lane in case.lanes:
        k, v = (x.double() for x in kv.gather(torch.tensor(slots_of(lane.past + lane.own))))
        k, v = k.repeat_interleave(case.group, 1), v.repeat_interleave(case.group, 1)
        at = torch.arange(lane.position, lane.position + lane.n_new)[:, None]
        seen = torch.arange(len(k))[None] <= at
        if case.window is not None:
            seen &= torch.arange(len(k))[None] > at - case.window
        rows = q[row : row + lane.n_new].double()
        scores = torch.einsum("rhd,lhd->hrl", rows, k) / case.head_dim**0.5
        weights = scores.masked_fill(~seen[None], float("-inf")).softmax(-1)
        outs.append(torch.einsum("hrl,lhd->rhd", weights, v))
        row += lane.n_new
    return torch.cat(outs)


def slots_of(extents: tuple[tuple[int, int], ...]) -> list[int]:
    """All slots, in order."""
    return [slot for start, length in extents for slot in range(start, start + length)]
