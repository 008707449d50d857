"""In which form keys and values lie in the pool. No torch here: tiers and events know it, too."""

from __future__ import annotations

import enum


class KvFormat(enum.StrEnum):
    """A number format of stored keys and values."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FP8_E4M3 = "fp8_e4m3"
    """8-bit float with 3 bits of mantissa, and a scale for each token and KV head."""
    FP8_E5M2 = "fp8_e5m2"
    """8-bit float with 2 bits of mantissa, and a scale for each token and KV head."""
    INT8 = "int8"
    """8-bit integer with a scale for each token and KV head."""
    INT4 = "int4"
    """4-bit integer, two in a byte, with a scale and a zero for each group of a head's elements."""
