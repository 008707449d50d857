"""Is it right on this device? Cached equals uncached for every family, KV format and backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.cost import AttentionCost
from agentkit_runtime.attention.plan import Lane, lane_order
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.attention.select import AttentionName, AttentionShape, open_attention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.pool_for import pool_for
from bench.gpu_rig import TINY, random_decoder

SHAPES: dict[str, ModelConfig] = {
    "llama": TINY,
    "mistral, sliding window": dataclasses.replace(TINY, family="mistral", sliding_window=100),
    "qwen2": dataclasses.replace(TINY, family="qwen2", qkv_bias=True),
    "qwen3": dataclasses.replace(TINY, family="qwen3", qk_norm=True, head_dim=128),
    "eight query heads for each KV head": dataclasses.replace(TINY, n_heads=16),
}
_SHARED, _TAIL, _LANES = 150, 30, 4
_SLOTS = 1024
_SHARE_ALL = AttentionCost(
    call_s=1e-9, key_s=1.0, pair_s=1e-9, merge_s=1e-9, merge_row_s=1e-12, gather_s=1e-9
)
"""Reading is so dear that all that can be shared is."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison."""

    name: str
    error: float
    """Largest difference of logits, in standard deviations of the uncached ones."""
    bound: float

    @property
    def passed(self) -> bool:
        """True when the difference is rounding."""
        return self.error <= self.bound


def run_checks(
    device: torch.device, dtypes: Sequence[torch.dtype], backends: Sequence[AttentionName]
) -> Iterator[Check]:
    """Compare team and lone runs for all shapes, formats and backends that go together."""
    for dtype in dtypes:
        bound = 2e-3 if dtype is torch.float32 else 0.15
        for label, config in SHAPES.items():
            decoder = random_decoder(config, device, dtype)
            for kv_format in KvFormat:
                storage = pool_for(
                    decoder,
                    n_slots=_SLOTS,
                    kv_format=kv_format,
                    compute_dtype=dtype,
                    device=device,
                )
                for backend in backends:
                    if not _opened(backend, decoder, storage, dtype):
                        continue
                    name = f"{label}, {dtype}, KV {kv_format.value}, {backend}"
                    yield Check(name, team_error(decoder, storage), bound)


def _opened(name: AttentionName, decoder: Decoder, storage: KvStorage, dtype: torch.dtype) -> bool:
    """Give the decoder a backend that shares whatever it can; False where it cannot run."""
    config = decoder.config
    if name == "sdpa":
        decoder.attention = SdpaAttention(sliding_window=config.sliding_window, cost=_SHARE_ALL)
        return True
    shape = AttentionShape(
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        sliding_window=config.sliding_window,
        dtype=dtype,
        device=storage.device,
        n_slots=storage.n_slots,
        plain_pool=storage.format.value == str(dtype).removeprefix("torch."),
    )
    try:
        decoder.attention = open_attention(name, shape, storage.layer(0))
    except ValueError:
        return False
    return True


def team_error(decoder: Decoder, storage: KvStorage) -> float:
    """Agents on one cached prefix, in one batch, against each of them alone and uncached."""
    vocab = decoder.config.vocab
    ids = torch.randint(0, vocab, (_SHARED + _LANES * _TAIL,), generator=_seeded()).tolist()
    prefix, tails = ids[:_SHARED], [ids[_SHARED + i * _TAIL :][:_TAIL] for i in range(_LANES)]
    _forward(decoder, storage, [Lane(past=(), position=0, n_new=_SHARED, own=_at(0, _SHARED))],
             [prefix])  # fmt: skip
    lanes: list[Lane] = []
    for i in range(_LANES):  # each tail but its last token, and then all last tokens together
        start = _SHARED + i * _TAIL
        lane = Lane(
            past=_at(0, _SHARED), position=_SHARED, n_new=_TAIL - 1, own=_at(start, _TAIL - 1)
        )
        lanes.append(lane)
    _forward(decoder, storage, lanes, [tail[:-1] for tail in tails])
    lanes = [
        Lane(
            past=(*_at(0, _SHARED), *lane.own),
            position=_SHARED + _TAIL - 1,
            n_new=1,
            own=_at(lane.own[0].end, 1),
        )
        for lane in lanes
    ]
    together = _forward(decoder, storage, lanes, [tail[-1:] for tail in tails])
    worst = 0.0
    for i, tail in enumerate(tails):
        n = _SHARED + _TAIL
        alone = Lane(past=(), position=0, n_new=n, own=_at(_SLOTS - n, n))
        (expected,) = _forward(decoder, storage, [alone], [prefix + tail])
        worst = max(worst, float((together[i] - expected).abs().max() / expected.std()))
    return worst


def _forward(
    decoder: Decoder, storage: KvStorage, lanes: Sequence[Lane], ids: Sequence[Sequence[int]]
) -> Tensor:
    """Logits [lanes, vocab] behind each lane's last token, in the order given."""
    order = lane_order(lanes)
    ordered = [lanes[i] for i in order]
    device = storage.device
    positions = [lane.position + i for lane in ordered for i in range(lane.n_new)]
    slots = [s for lane in ordered for e in lane.own for s in range(e.start, e.end)]
    ends = torch.tensor([lane.n_new for lane in ordered]).cumsum(0) - 1
    batch = ForwardBatch(
        token_ids=torch.tensor([t for i in order for t in ids[i]], device=device),
        positions=torch.tensor(positions, device=device),
        slots=torch.tensor(slots, device=device),
        logit_rows=ends.to(device),
        plan=decoder.attention.plan(ordered),
    )
    logits = decoder.forward(batch, storage)
    return logits[torch.tensor(order, device=device).argsort()]


def _at(start: int, length: int) -> tuple[Extent, ...]:
    return (Extent(start, length),)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(11)
