"""The arithmetic of KV memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agentkit_runtime.kv.format import KvFormat, token_bytes
from agentkit_runtime.model.config import ModelConfig

WEIGHT_BITS: Mapping[str, float] = MappingProxyType(
    {"float32": 32, "bfloat16": 16, "float16": 16, "int8": 8.5, "int4": 5}
)
"""Bits of a weight, its share of the scales of its group included (see `model.linear`)."""

_VECTOR_BYTES = 4
"""Norms and biases stay floats; they are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPlan:
    """What fits into a memory."""

    model: str
    memory_bytes: int
    weights: str
    weight_bytes: int
    reserve_bytes: int
    """Left for activations and whatever else needs memory."""
    kv_dtype: str
    bytes_per_token: int
    """K and V of all layers, scales included."""
    scale_bytes_per_token: int
    """Of them, scales."""
    tokens: int
    """That fit beside weights and reserve; 0 when the weights alone do not fit."""
    context: int
    """Tokens of one user's conversation."""
    shared: int
    """Of them, those of a prefix that all users share."""
    users: int
    """Whole conversations that fit when nothing is shared."""
    users_shared: int
    """The same when the prefix is stored once."""


def n_weights(config: ModelConfig) -> int:
    """All parameters of the model, exactly: matrices, norms and biases."""
    return _matrix_weights(config) + _vector_weights(config)


def weight_bytes(config: ModelConfig, weights: str) -> int:
    """Bytes of the weights in a format of `WEIGHT_BITS`."""
    matrices = math.ceil(_matrix_weights(config) * _bits(weights) / 8)
    return matrices + _vector_weights(config) * _VECTOR_BYTES


def plan_kv(
    config: ModelConfig,
    *,
    model: str,
    memory_bytes: int,
    kv_format: KvFormat,
    weights: str,
    context: int,
    shared: int,
    reserve: float = 0.05,
) -> KvPlan:
    """Count what fits.

    Args:
        config: the model's shape.
        model: its name, for the report.
        memory_bytes: of the device.
        kv_format: how keys and values are stored.
        weights: a key of `WEIGHT_BITS`.
        context: tokens of a conversation.
        shared: of them, those that all conversations begin with.
        reserve: part of the memory that is left free, from 0 up to 1.

    Raises:
        ValueError: a number is out of range, a name unknown, or `context` more than the model can.
    """
    if not 0 < context <= config.max_position:
        raise ValueError(
            f"context must be from 1 to the model's {config.max_position}, got {context!r}"
        )
    if not 0 <= shared < context:
        raise ValueError(f"shared must be from 0 to context - 1 ({context - 1}), got {shared!r}")
    if not 0 <= reserve < 1:
        raise ValueError(f"reserve must be at least 0 and less than 1, got {reserve!r}")
    kv = token_bytes(
        kv_format,
        n_layers=config.n_layers,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
    )
    n_weight_bytes = weight_bytes(config, weights)
    n_reserved = int(memory_bytes * reserve)
    tokens = max(0, memory_bytes - n_weight_bytes - n_reserved) // kv.total
    return KvPlan(
        model=model,
        memory_bytes=memory_bytes,
        weights=weights,
        weight_bytes=n_weight_bytes,
        reserve_bytes=n_reserved,
        kv_dtype=kv_format.value,
        bytes_per_token=kv.total,
        scale_bytes_per_token=kv.scales,
        tokens=tokens,
        context=context,
        shared=shared,
        users=tokens // context,
        users_shared=max(0, tokens - shared) // (context - shared),
    )


def _matrix_weights(config: ModelConfig) -> int:
    embeddings = 1 if config.tied_embeddings else 2
    return config.block_weights + embeddings * config.vocab * config.hidden


def _vector_weights(config: ModelConfig) -> int:
    norms = 2 * config.hidden + (2 * config.head_dim if config.qk_norm else 0)
    heads = config.n_heads + 2 * config.n_kv_heads
    biases = heads * config.head_dim if config.qkv_bias else 0
    return config.n_layers * (norms + biases) + config.hidden


def _bits(weights: str) -> float:
    try:
        return WEIGHT_BITS[weights]
    except KeyError:
        known = ", ".join(WEIGHT_BITS)
        raise ValueError(f"weights must be one of {known}, got {weights!r}") from None
