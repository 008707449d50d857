"""A tiny random model, and plain ways to run it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane, build_plan
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.pool_for import pool_for
from agentkit_runtime.model.weights import load_weights

CONFIG = ModelConfig(
    family="llama",
    n_layers=2,
    hidden=32,
    n_heads=4,
    n_kv_heads=2,
    head_dim=16,
    intermediate=48,
    vocab=97,
    rms_eps=1e-5,
    rope_theta=10_000.0,
    max_position=400,
    tied_embeddings=True,
)


class RandomWeights:
    """`model.weights.TensorSource`: every tensor from the same generator, in order of asking."""

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        self.config = config
        self._generator = torch.Generator().manual_seed(seed)
        q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
        self._shapes = {
            "embed_tokens": (config.vocab, config.hidden),
            "q_proj": (q, config.hidden),
            "k_proj": (kv, config.hidden),
            "v_proj": (kv, config.hidden),
            "o_proj": (config.hidden, q),
            "gate_proj": (config.intermediate, config.hidden),
            "up_proj": (config.intermediate, config.hidden),
            "down_proj": (config.hidden, config.intermediate),
        }

    def has(self, name: str) -> bool:
        return False

    def tensor(self, name: str) -> torch.Tensor:
        shape = self._shapes.get(name.split(".")[-2], (self.config.hidden,))
        drawn = torch.randn(*shape, generator=self._generator) * 0.2
        if "norm" in name:
            return drawn + 1
        return drawn * 5 if "embed" in name else drawn


def tiny_decoder(dtype: torch.dtype = torch.float32) -> Decoder:
    weights = load_weights(RandomWeights(CONFIG), device=torch.device("cpu"), dtype=dtype)
    return Decoder(CONFIG, weights, SdpaAttention())


def logits_at_once(decoder: Decoder, kv_format: KvFormat, ids: Sequence[int]) -> torch.Tensor:
    """Logits [n, vocab] of a sequence in one chunk, in a pool of its own."""
    n = len(ids)
    storage = pool_for(decoder, n_slots=n, kv_format=kv_format)
    places = torch.arange(n)
    batch = ForwardBatch(
        token_ids=torch.tensor(ids),
        positions=places,
        slots=places,
        logit_rows=places,
        plan=build_plan([Lane(past=(), position=0, n_new=n, own=(Extent(0, n),))]),
    )
    return decoder.forward(batch, storage)
