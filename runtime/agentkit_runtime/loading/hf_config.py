"""`config.json` of a Hugging Face folder -> `ModelConfig`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.config_keys import JsonObject, Keys
from agentkit_runtime.loading.hf_rope import max_position, rope_scaling, rope_values
from agentkit_runtime.model.config import Family, ModelConfig

ARCHITECTURES: Mapping[str, Family] = MappingProxyType(
    {
        "LlamaForCausalLM": "llama",
        "MistralForCausalLM": "mistral",
        "Qwen2ForCausalLM": "qwen2",
        "Qwen3ForCausalLM": "qwen3",
        "SmolLM3ForCausalLM": "smollm3",
    }
)
"""Values of `architectures` that are implemented."""

_QWEN3_HEAD_DIM = 128
"""Qwen3's default; the other families divide the hidden size by the number of heads."""

_SMOLLM3_THETA = 2_000_000.0
"""SmolLM3's default."""

_NO_ROPE_INTERVAL = 4
"""SmolLM3's default: every fourth layer is not rotated."""


def config_from_hf(label: str, values: JsonObject, names: Set[str]) -> ModelConfig:
    """Read the decoder's shape; `names` are the tensors that the folder has.

    Raises `UnsupportedModel` naming the value that is missing or not implemented.
    """
    keys = Keys(label, values)
    family = _family(keys)
    _refuse_variants(keys)
    hidden, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    default_dim = _QWEN3_HEAD_DIM if family == "qwen3" else hidden // heads
    layers = keys.integer("num_hidden_layers")
    rope = rope_values(keys)
    trained_positions = keys.integer("max_position_embeddings")
    scaling = rope_scaling(rope, trained_positions)
    theta = _SMOLLM3_THETA if family == "smollm3" else 10_000.0
    return ModelConfig(
        family=family,
        n_layers=layers,
        hidden=hidden,
        n_heads=heads,
        n_kv_heads=keys.integer("num_key_value_heads", heads),
        head_dim=keys.integer("head_dim", default_dim),
        intermediate=keys.integer("intermediate_size"),
        vocab=keys.integer("vocab_size"),
        rms_eps=keys.number("rms_norm_eps", 1e-6),
        rope_theta=rope.number("rope_theta", keys.number("rope_theta", theta)),
        max_position=max_position(trained_positions, scaling),
        rope_scaling=scaling,
        qkv_bias="model.layers.0.self_attn.q_proj.bias" in names,
        qk_norm="model.layers.0.self_attn.q_norm.weight" in names,
        tied_embeddings=keys.flag("tie_word_embeddings", family == "smollm3"),
        sliding_window=_sliding_window(keys, family, layers),
        no_rope_layers=_no_rope_layers(keys, layers) if family == "smollm3" else frozenset(),
    )


def _family(keys: Keys) -> Family:
    architectures = keys.values.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    family = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if family is None:
        raise UnsupportedModel(
            f"{keys.label}: architecture {name!r} is not implemented; "
            f"known are {', '.join(ARCHITECTURES)}"
        )
    return family


def _refuse_variants(keys: Keys) -> None:
    """Settings that change the computation in a way that is not implemented."""
    quantisation = keys.values.get("quantization_config")
    if quantisation is not None:
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else None
        raise UnsupportedModel(
            f"{keys.label}: weights quantised by {method!r} are not implemented; "
            "use the unquantised model or a GGUF file"
        )
    activation = keys.values.get("hidden_act", "silu")
    if activation != "silu":
        raise keys.wrong("hidden_act", activation)
    rotated = keys.values.get("partial_rotary_factor")
    if rotated not in (None, 1, 1.0):
        raise keys.wrong("partial_rotary_factor", rotated)


def _sliding_window(keys: Keys, family: Family, n_layers: int) -> int | None:
    """The window if all layers slide, None if none does; a mixture is refused."""
    if family == "llama" or keys.values.get("sliding_window") is None:
        return None
    window = keys.integer("sliding_window")
    if family == "mistral":
        return window
    if family == "smollm3" and keys.flag("use_sliding_window"):
        raise keys.wrong("use_sliding_window", True)  # would slide in some layers only
    kinds = keys.values.get("layer_types")
    if isinstance(kinds, list):
        n_sliding = kinds.count("sliding_attention")
    elif keys.flag("use_sliding_window"):
        n_sliding = max(n_layers - keys.integer("max_window_layers", 28), 0)
    else:
        n_sliding = 0
    if n_sliding not in (0, n_layers):
        raise UnsupportedModel(
            f"{keys.label}: sliding window attention in {n_sliding} of {n_layers} layers "
            "is not implemented"
        )
    return window if n_sliding else None


def _no_rope_layers(keys: Keys, n_layers: int) -> frozenset[int]:
    """`no_rope_layers` holds a 1 for each layer that *is* rotated, in spite of its name."""
    rotated = keys.values.get("no_rope_layers")
    if rotated is None:
        interval = keys.integer("no_rope_layer_interval", _NO_ROPE_INTERVAL)
        return frozenset(range(interval - 1, n_layers, interval))
    if not isinstance(rotated, list) or len(rotated) != n_layers or set(rotated) - {0, 1}:
        raise keys.wrong("no_rope_layers", rotated)
    return frozenset(index for index, value in enumerate(rotated) if not value)
