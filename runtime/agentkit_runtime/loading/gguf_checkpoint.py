"""A GGUF file as a `Checkpoint`: canonical names, and rotary rows in the half-split order.

llama.cpp's converter stores the rows of Q and K of Llama and SmolLM3 permuted, for interleaved
rotary embedding; our decoder rotates halves, so the permutation is undone here. The two wrong
combinations of permutation and rotation hardly change the perplexity of a prompt, hence only logits
or generated text can show a mistake in this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType

import torch

from agentkit_runtime.loading.gguf_blocks import BLOCK_BYTES, blocks_from_gguf
from agentkit_runtime.loading.gguf_config import config_from_gguf
from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.loading.layout import EMBEDDING, FINAL_NORM, LM_HEAD, check_tensors
from agentkit_runtime.model.blocks import Blocks

_TOP_LEVEL = MappingProxyType(
    {
        "token_embd.weight": EMBEDDING,
        "output_norm.weight": FINAL_NORM,
        "output.weight": LM_HEAD,
    }
)
_PER_LAYER = MappingProxyType(
    {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
)
_PERMUTED = ("llama", "smollm3")
_CONSUMED_BY_CONFIG = frozenset({"rope_freqs.weight"})
_LAYER_NAME = re.compile(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)")
_ROTARY_NAME = re.compile(r"\.self_attn\.([qk])_proj\.(?:weight|bias)$")


class GgufCheckpoint:
    """The decoder in a GGUF file. See `Checkpoint` for the contract."""

    def __init__(self, path: Path) -> None:
        self.file = GgufFile(path)
        self.config = config_from_gguf(self.file)
        self._stored_names = {
            canonical_name(stored): stored
            for stored in self.file.tensors
            if stored not in _CONSUMED_BY_CONFIG
        }
        check_tensors(
            repr(str(path)),
            self.config,
            {name: self.file.tensors[stored].shape for name, stored in self._stored_names.items()},
        )
        self.fingerprint = self.file.sample_digest().hex()
        self._is_permuted = self.file.metadata["general.architecture"] in _PERMUTED

    def has(self, name: str) -> bool:
        """Whether `tensor(name)` exists."""
        return name in self._stored_names

    def tensor(self, name: str) -> torch.Tensor:
        """Decode one tensor by its canonical name to a new float32 CPU tensor."""
        weight = self.file.tensor(self._stored_names[name])
        n_heads = self._permuted_heads(name)
        return weight if n_heads is None else unpermute_rotary_rows(weight, n_heads)

    def blocks(self, name: str) -> Blocks | None:
        """The matrix as the integers of the file; None for types that are not simple blocks."""
        stored = self._stored_names[name]
        info = self.file.tensors[stored]
        if info.type_name not in BLOCK_BYTES or len(info.shape) != 2:
            return None
        n_out, n_in = info.shape
        blocks = blocks_from_gguf(self.file.raw(stored), info.type_name, (n_out, n_in))
        n_heads = self._permuted_heads(name)
        if n_heads is None:
            return blocks
        minimum = blocks.minimum
        return Blocks(
            bits=blocks.bits,
            codes=unpermute_rotary_rows(blocks.codes, n_heads),
            scale=unpermute_rotary_rows(blocks.scale, n_heads),
            minimum=None if minimum is None else unpermute_rotary_rows(minimum, n_heads),
        )

    def _permuted_heads(self, name: str) -> int | None:
        """How many heads the tensor's rows make up, if the converter permuted them."""
        rotary = _ROTARY_NAME.search(name) if self._is_permuted else None
        if rotary is None:
            return None
        return self.config.n_heads if rotary[1] == "q" else self.config.n_kv_heads


def canonical_name(stored: str) -> str:
    """Canonical name of a GGUF tensor name; a name that is not known is returned as it is."""
    if stored in _TOP_LEVEL:
        return _TOP_LEVEL[stored]
    match = _LAYER_NAME.fullmatch(stored)
    if match is None or match[2] not in _PER_LAYER:
        return stored
    return f"model.layers.{match[1]}.{_PER_LAYER[match[2]]}.{match[3]}"


def unpermute_rotary_rows(weight: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Reorder the rows of each head from interleaved pairs to two halves.

    `weight` is `[n_heads * head_dim, ...]`. Row `2 i + j` of a head (j in 0, 1) becomes row
    `j * head_dim / 2 + i`: the inverse of `permute` in llama.cpp's converter.
    """
    half = weight.shape[0] // n_heads // 2
    grouped = weight.reshape(n_heads, half, 2, -1)
    return grouped.transpose(1, 2).reshape(weight.shape).contiguous()
