"""Number formats of the KV pool: how keys and values become bytes, and numbers again.

base.py      the seam: a codec and the planes that it fills
floats.py    float32, bfloat16, float16
fp8.py       8-bit floats with a scale
int8.py      8-bit integers with a scale
int4.py      4-bit integers in groups with a scale and a zero
rotation.py  how keys are turned before they are coded, so that outliers are smaller

What a read costs on one core of a busy machine, for 4,096 tokens of 3 heads of 64 in 30 layers, of
which one query's attention alone takes 40 ms: bfloat16, float16 and int8 12 ms, fp8 26 to 29, int4
57. A token is written in 40 us a layer (int8) or 155 us (fp8, int4). Nothing of a read is kept: a
scratch buffer would save no time, and two reads could not be held.
"""

from __future__ import annotations

import torch

from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.formats.base import Codec, Plane
from agentkit_runtime.kv.formats.floats import FLOAT_DTYPES, FloatCodec, float_format
from agentkit_runtime.kv.formats.fp8 import E4M3, E5M2, Fp8Codec
from agentkit_runtime.kv.formats.int4 import Int4Codec
from agentkit_runtime.kv.formats.int8 import Int8Codec

__all__ = ["FLOAT_DTYPES", "TURNED", "Codec", "FloatCodec", "Plane", "codec_for", "float_format"]

TURNED = frozenset({KvFormat.FP8_E4M3, KvFormat.FP8_E5M2, KvFormat.INT4})
"""Formats whose keys are turned (see `rotation`). INT8 is precise enough as it is."""


def codec_for(kv_format: KvFormat, *, head_dim: int, compute_dtype: torch.dtype) -> Codec:
    """Return the codec of a format. Raises ValueError where the format cannot have `head_dim`."""
    match kv_format:
        case KvFormat.FP8_E4M3:
            return Fp8Codec(E4M3, head_dim, compute_dtype)
        case KvFormat.FP8_E5M2:
            return Fp8Codec(E5M2, head_dim, compute_dtype)
        case KvFormat.INT8:
            return Int8Codec(head_dim, compute_dtype)
        case KvFormat.INT4:
            return Int4Codec(head_dim, compute_dtype)
        case _:
            return FloatCodec(FLOAT_DTYPES[kv_format], head_dim, compute_dtype)
