"""Which tensors a decoder must have: canonical names and shapes, derived from its `ModelConfig`.

Canonical names are those of the Hugging Face Llama family. Both kinds of checkpoint are compared
with this table when they are opened, so that a missing, surplus or misshapen tensor is an error
that names it, and never a silently wrong model.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.model.config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
LM_HEAD = "lm_head.weight"


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every canonical tensor name of such a model, with its `(out, in)` or `(n,)` shape."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab, config.hidden)}
    for layer in range(config.n_layers):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + name: shape for name, shape in _layer_shapes(config).items()}
    shapes[FINAL_NORM] = (config.hidden,)
    if not config.tied_embeddings:
        shapes[LM_HEAD] = (config.vocab, config.hidden)
    return shapes


def check_tensors(label: str, config: ModelConfig, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise `UnsupportedModel` unless `found` has exactly the expected tensors and shapes."""
    expected = expected_shapes(config)
    missing = expected.keys() - found.keys()
    if missing:
        raise UnsupportedModel(
            f"{label}: {len(missing)} tensors are missing, the first is {min(missing)!r}; "
            "the file is incomplete or of another architecture"
        )
    surplus = found.keys() - expected.keys()
    if surplus:
        raise UnsupportedModel(
            f"{label}: tensor {min(surplus)!r} is not part of a {config.family} decoder as this "
            f"runtime implements it ({len(surplus)} such tensors)"
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise UnsupportedModel(
                f"{label}: tensor {name!r} has shape {found[name]}, the configuration says {shape}"
            )


def _layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, intermediate = config.hidden, config.intermediate
    q_size = config.n_heads * config.head_dim
    kv_size = config.n_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (q_size, hidden),
        "self_attn.k_proj.weight": (kv_size, hidden),
        "self_attn.v_proj.weight": (kv_size, hidden),
        "self_attn.o_proj.weight": (hidden, q_size),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (intermediate, hidden),
        "mlp.up_proj.weight": (intermediate, hidden),
        "mlp.down_proj.weight": (hidden, intermediate),
    }
    if config.qkv_bias:
        shapes |= {
            "self_attn.q_proj.bias": (q_size,),
            "self_attn.k_proj.bias": (kv_size,),
            "self_attn.v_proj.bias": (kv_size,),
        }
    if config.qk_norm:
        shapes |= {
            "self_attn.q_norm.weight": (config.head_dim,),
            "self_attn.k_norm.weight": (config.head_dim,),
        }
    return shapes
