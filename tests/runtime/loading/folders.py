"""Writes tiny Hugging Face folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from agentkit_runtime.loading.layout import expected_shapes
from agentkit_runtime.model.config import ModelConfig

CONFIGS: dict[str, dict[str, object]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "rope_theta": 20_000.0},
    "mistral": {"architectures": ["MistralForCausalLM"], "sliding_window": 32},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": True},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "head_dim": 32},
}
"""What makes each family; the sizes are the same for all."""

SIZES: dict[str, object] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}


def config_values(family: str, **changes: object) -> dict[str, object]:
    """A `config.json`; a value of None leaves the key out."""
    values = {**SIZES, **CONFIGS[family], **changes}
    return {name: value for name, value in values.items() if value is not None}


def family_tensors(family: str, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Random weights under their canonical names."""
    config = ModelConfig(
        family="llama",
        n_layers=2,
        hidden=64,
        n_heads=4,
        n_kv_heads=2,
        head_dim=32 if family == "qwen3" else 16,
        intermediate=96,
        vocab=40,
        rms_eps=1e-5,
        rope_theta=10_000.0,
        max_position=128,
        qkv_bias=family == "qwen2",
        qk_norm=family == "qwen3",
        tied_embeddings=family == "qwen2",
    )
    generator = torch.Generator().manual_seed(11)
    return {
        name: torch.randn(shape, generator=generator).to(dtype)
        for name, shape in expected_shapes(config).items()
    }


def write_folder(
    folder: Path, config: Mapping[str, object], *shards: Mapping[str, torch.Tensor]
) -> Path:
    """One shard is `model.safetensors`; several get an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    names = ["model.safetensors"]
    if len(shards) > 1:
        names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
        weight_map = {
            tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard
        }
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    for name, shard in zip(names, shards, strict=True):
        save_file(dict(shard), folder / name)
    return folder
