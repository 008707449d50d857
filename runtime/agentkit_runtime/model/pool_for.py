"""A KV pool that fits a decoder: its shape, and where its keys have their centre."""

from __future__ import annotations

import torch
from torch import Tensor

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane, build_plan
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.formats import TURNED
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.model.decoder import Decoder

_N_TOKENS = 512
_COMMON = (300, 1500)
"""Ids of frequent pieces: the first merges of a byte-pair vocabulary, behind bytes and controls."""


def pool_for(
    decoder: Decoder,
    *,
    n_slots: int,
    kv_format: KvFormat | None = None,
    compute_dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> KvStorage:
    """Open an empty pool of `n_slots` tokens; see `KvStorage`. FP8 and INT4 run the decoder."""
    config = decoder.config

    def opened(n: int, stored: KvFormat | None, centre: Tensor | None = None) -> KvStorage:
        return KvStorage(
            n_layers=config.n_layers,
            n_slots=n,
            n_kv_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            compute_dtype=compute_dtype,
            kv_format=stored,
            key_centre=centre,
            device=device,
        )

    if kv_format not in TURNED:
        return opened(n_slots, kv_format)
    n_tokens = min(_N_TOKENS, config.max_position)
    return opened(n_slots, kv_format, mean_keys(decoder, opened(n_tokens, None)))


@torch.inference_mode()
def mean_keys(decoder: Decoder, storage: KvStorage) -> Tensor:
    """Mean key of each layer and head [n_layers, n_kv_heads, head_dim], float32.

    Over as many frequent tokens, drawn with a fixed seed, as `storage` has slots; it must be a pool
    of plain numbers, and is overwritten.
    """
    n = storage.n_slots
    low, high = _COMMON if decoder.config.vocab > _COMMON[1] else (0, decoder.config.vocab)
    ids = torch.randint(low, high, (n,), generator=torch.Generator().manual_seed(0))
    places = torch.arange(n, device=storage.device)
    batch = ForwardBatch(
        token_ids=ids.to(storage.device),
        positions=places,
        slots=places,
        logit_rows=places[-1:],
        plan=build_plan([Lane(past=(), position=0, n_new=n, own=(Extent(0, n),))]),
    )
    decoder.forward(batch, storage)
    return storage.keys.float().mean(1)
