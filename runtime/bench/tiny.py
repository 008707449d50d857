"""A tiny random model: enough to be wrong in every way that a large one can be, and fast."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

from agentkit_runtime.attention.base import AttentionBackend
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.loading.layout import expected_shapes
from agentkit_runtime.model.blocks import Blocks
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.weights import load_weights
from agentkit_runtime.types import TextDelta

TINY = ModelConfig(
    family="llama",
    n_layers=2,
    hidden=32,
    n_heads=4,
    n_kv_heads=2,
    head_dim=32,
    intermediate=48,
    vocab=97,
    rms_eps=1e-5,
    rope_theta=10_000.0,
    max_position=1_024,
    tied_embeddings=True,
)


@dataclass(frozen=True, slots=True)
class RandomCheckpoint:
    """Weights that depend on nothing but their names."""

    config: ModelConfig = TINY

    @property
    def fingerprint(self) -> str:
        """All of it is in the code."""
        return "random"

    def has(self, name: str) -> bool:
        """See `Checkpoint.has`."""
        return name in expected_shapes(self.config)

    def tensor(self, name: str) -> torch.Tensor:
        """See `Checkpoint.tensor`."""
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
        shape = expected_shapes(self.config)[name]
        drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.2
        if name.endswith("norm.weight"):
            return 1 + drawn
        # Tokens must differ more than the layers add to them, or all prompts end alike.
        return drawn * 5 if "embed" in name else drawn

    def blocks(self, name: str) -> Blocks | None:
        """See `Checkpoint.blocks`."""
        return None


def tiny_decoder(
    config: ModelConfig = TINY, *, attention: AttentionBackend | None = None
) -> Decoder:
    """Make a decoder with random weights, in float32 on the CPU."""
    weights = load_weights(
        RandomCheckpoint(config), device=torch.device("cpu"), dtype=torch.float32
    )
    backend = attention or SdpaAttention(sliding_window=config.sliding_window)
    return Decoder(config, weights, backend)


class Silent:
    """A text stream for requests whose ids are all that is looked at."""

    def push(self, token_id: int) -> TextDelta:
        """See `TextStream.push`."""
        return TextDelta("")

    def finish(self) -> str:
        """See `TextStream.finish`."""
        return ""
