"""In which form keys and values lie in the pool. No torch here: tiers and events know it, too."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

_SCALE_BYTES = 2
"""A scale is a bfloat16: it has the range of a float32, so no outlier overflows it."""
_MAX_GROUP = 16
"""INT4 in groups of 32 costs a third more perplexity, FP8 with one scale for a head half more
(runtime/bench/quality.py)."""


class KvFormat(enum.StrEnum):
    """A number format of stored keys and values."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FP8_E4M3 = "fp8_e4m3"
    """8-bit float with 3 bits of mantissa, and a scale for each group of a head's elements."""
    FP8_E5M2 = "fp8_e5m2"
    """8-bit float with 2 bits of mantissa, and a scale for each group of a head's elements."""
    INT8 = "int8"
    """8-bit integer with a scale for each token and KV head."""
    INT4 = "int4"
    """4-bit integer, two in a byte, with a scale and a zero for each group of a head's elements."""

    @classmethod
    def parse(cls, name: str) -> KvFormat:
        """Return the format of this name; "fp8" is short for fp8_e4m3. Raises ValueError."""
        try:
            return cls(_SHORT.get(name, name))
        except ValueError:
            known = ", ".join([*cls, *_SHORT])
            raise ValueError(f"kv_dtype must be one of {known}, got {name!r}") from None


_SHORT = {"fp8": "fp8_e4m3"}
_CODE_BITS = {
    KvFormat.FLOAT32: 32,
    KvFormat.BFLOAT16: 16,
    KvFormat.FLOAT16: 16,
    KvFormat.FP8_E4M3: 8,
    KvFormat.FP8_E5M2: 8,
    KvFormat.INT8: 8,
    KvFormat.INT4: 4,
}


@dataclass(frozen=True, slots=True)
class KvBytes:
    """Bytes of keys and values."""

    codes: int
    """The numbers themselves."""
    scales: int
    """What is needed to read them back; lies at the same slot."""

    @property
    def total(self) -> int:
        """Both together."""
        return self.codes + self.scales


def group_size(head_dim: int) -> int:
    """Elements of a head that share one scale: 16, or less where 16 does not divide the head."""
    return math.gcd(head_dim, _MAX_GROUP)


def int4_group_size(head_dim: int) -> int:
    """As `group_size`. Raises ValueError for an odd `head_dim`: codes are packed two to a byte."""
    size = group_size(head_dim)
    if size < 2:
        raise ValueError(f"int4 KV packs pairs of numbers: head_dim must be even, got {head_dim!r}")
    return size


def token_bytes(kv_format: KvFormat, *, n_layers: int, n_kv_heads: int, head_dim: int) -> KvBytes:
    """Bytes of K and V of one token over all layers, exactly as the pool stores them.

    Raises ValueError for a head_dim that the format cannot have.
    """
    heads = 2 * n_layers * n_kv_heads
    match kv_format:
        case KvFormat.FP8_E4M3 | KvFormat.FP8_E5M2:
            scales = _SCALE_BYTES * (head_dim // group_size(head_dim))
        case KvFormat.INT8:
            scales = _SCALE_BYTES
        case KvFormat.INT4:
            scales = 2 * _SCALE_BYTES * (head_dim // int4_group_size(head_dim))
        case _:
            scales = 0
    return KvBytes(heads * head_dim * _CODE_BITS[kv_format] // 8, heads * scales)


def bytes_per_token(kv_format: KvFormat, *, n_layers: int, n_kv_heads: int, head_dim: int) -> int:
    """Bytes of K and V of one token over all layers, with scales; see `token_bytes`."""
    return token_bytes(kv_format, n_layers=n_layers, n_kv_heads=n_kv_heads, head_dim=head_dim).total
