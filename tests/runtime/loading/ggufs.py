"""Writes tiny GGUF files with the gguf package's own writer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, LAYERS, VOCAB = 64, 4, 2, 16, 96, 2, 40
QUANT = gguf.GGMLQuantizationType


def llama_metadata(**changes: object) -> dict[str, object]:
    """Metadata of the tiny decoder; a value of None leaves the key out."""
    values: dict[str, object] = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": HIDDEN,
        "feed_forward_length": INTERMEDIATE,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 50_000.0,
    }
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


def decoder_tensors(
    *, head_dim: int = HEAD_DIM, bias: bool = False, qk_norm: bool = False, tied: bool = False
) -> dict[str, Floats]:
    """Random weights under their GGUF names."""
    random = np.random.default_rng(7)

    def weights(*shape: int) -> Floats:
        return random.standard_normal(shape, dtype=np.float32)

    q_size, kv_size = HEADS * head_dim, KV_HEADS * head_dim
    tensors = {"token_embd.weight": weights(VOCAB, HIDDEN), "output_norm.weight": weights(HIDDEN)}
    if not tied:
        tensors["output.weight"] = weights(VOCAB, HIDDEN)
    for layer in range(LAYERS):
        shapes: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (HIDDEN,),
            "attn_q.weight": (q_size, HIDDEN),
            "attn_k.weight": (kv_size, HIDDEN),
            "attn_v.weight": (kv_size, HIDDEN),
            "attn_output.weight": (HIDDEN, q_size),
            "ffn_norm.weight": (HIDDEN,),
            "ffn_gate.weight": (INTERMEDIATE, HIDDEN),
            "ffn_up.weight": (INTERMEDIATE, HIDDEN),
            "ffn_down.weight": (HIDDEN, INTERMEDIATE),
        }
        if bias:
            shapes |= {
                "attn_q.bias": (q_size,),
                "attn_k.bias": (kv_size,),
                "attn_v.bias": (kv_size,),
            }
        if qk_norm:
            shapes |= {"attn_q_norm.weight": (head_dim,), "attn_k_norm.weight": (head_dim,)}
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}"] = weights(*shape)
    return tensors


def write_gguf(
    path: Path,
    tensors: Mapping[str, Floats],
    metadata: Mapping[str, object],
    *,
    architecture: str = "llama",
    types: Mapping[str, gguf.GGMLQuantizationType] | None = None,
) -> Path:
    """Write a file; `types` says how tensors are stored (float32 if it does not)."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in metadata.items():
        key = f"{architecture}.{name}"
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)
    for name, tensor in tensors.items():
        kind = (types or {}).get(name, QUANT.F32)
        writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
