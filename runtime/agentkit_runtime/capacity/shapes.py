"""Shapes of public models, for plans without their files.

From the `config.json` of each model's repository on huggingface.co, as of 2026-11; those of gated
models from the ungated copies. The tests compare the parameters that follow from them with those
that the repositories state.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentkit_runtime.model.config import Family, ModelConfig


def _shape(
    layers: int,
    hidden: int,
    heads: tuple[int, int],
    head_dim: int,
    intermediate: int,
    vocab: int,
    max_position: int,
    *,
    family: Family = "llama",
    tied: bool = False,
    qkv_bias: bool = False,
    qk_norm: bool = False,
) -> ModelConfig:
    """`heads` are query heads and KV heads. What only changes numbers, not sizes, is left out."""
    n_heads, n_kv_heads = heads
    return ModelConfig(
        family=family,
        n_layers=layers,
        hidden=hidden,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        intermediate=intermediate,
        vocab=vocab,
        rms_eps=1e-5,
        rope_theta=10_000.0,
        max_position=max_position,
        tied_embeddings=tied,
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
    )


SHAPES: Mapping[str, ModelConfig] = MappingProxyType(
    {
        "llama-2-13b": _shape(40, 5120, (40, 40), 128, 13824, 32000, 4096),
        "llama-3.1-8b": _shape(32, 4096, (32, 8), 128, 14336, 128256, 131072),
        "llama-3.1-70b": _shape(80, 8192, (64, 8), 128, 28672, 128256, 131072),
        "llama-3.2-1b": _shape(16, 2048, (32, 8), 64, 8192, 128256, 131072, tied=True),
        "llama-3.2-3b": _shape(28, 3072, (24, 8), 128, 8192, 128256, 131072, tied=True),
        "mistral-7b-v0.3": _shape(32, 4096, (32, 8), 128, 14336, 32768, 32768, family="mistral"),
        "qwen2.5-7b": _shape(
            28, 3584, (28, 4), 128, 18944, 152064, 32768, family="qwen2", qkv_bias=True
        ),
        "qwen3-8b": _shape(
            36, 4096, (32, 8), 128, 12288, 151936, 40960, family="qwen3", qk_norm=True
        ),
        "smollm2-135m": _shape(30, 576, (9, 3), 64, 1536, 49152, 8192, tied=True),
        "smollm2-1.7b": _shape(24, 2048, (32, 32), 64, 8192, 49152, 8192, tied=True),
        "smollm3-3b": _shape(36, 2048, (16, 4), 128, 11008, 128256, 65536, tied=True),
    }
)
