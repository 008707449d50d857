"""`config.json` of a Hugging Face folder -> `ModelConfig`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.model.config import Family, ModelConfig, RopeScaling

JsonObject: TypeAlias = Mapping[str, object]

ARCHITECTURES: Mapping[str, Family] = MappingProxyType(
    {
        "LlamaForCausalLM": "llama",
        "MistralForCausalLM": "mistral",
        "Qwen2ForCausalLM": "qwen2",
        "Qwen3ForCausalLM": "qwen3",
    }
)
"""Values of `architectures` that are implemented."""

_QWEN3_HEAD_DIM = 128
"""Qwen3's default; the other families divide the hidden size by the number of heads."""


def config_from_hf(label: str, values: JsonObject, names: Set[str]) -> ModelConfig:
    """Read the decoder's shape; `names` are the tensors that the folder has.

    Raises `UnsupportedModel` naming the value that is missing or not implemented.
    """
    keys = _Keys(label, values)
    family = _family(keys)
    _refuse_variants(keys)
    hidden, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    default_dim = _QWEN3_HEAD_DIM if family == "qwen3" else hidden // heads
    layers = keys.integer("num_hidden_layers")
    rope = _rope_values(keys)
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
        rope_theta=rope.number("rope_theta", keys.number("rope_theta", 10_000.0)),
        max_position=keys.integer("max_position_embeddings"),
        rope_scaling=_rope_scaling(rope),
        qkv_bias="model.layers.0.self_attn.q_proj.bias" in names,
        qk_norm="model.layers.0.self_attn.q_norm.weight" in names,
        tied_embeddings=keys.flag("tie_word_embeddings"),
        sliding_window=_sliding_window(keys, family, layers),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """Typed access; a key that is null counts as absent."""

    label: str
    values: JsonObject

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(name, value)
        return value

    def number(self, name: str, default: float) -> float:
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(name, value)
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._value(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, value)
        return value

    def wrong(self, name: str, value: object) -> UnsupportedModel:
        return UnsupportedModel(
            f"{self.label}: config.json has {name} = {value!r}, which is not implemented or missing"
        )

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        return default if value is None else value


def _family(keys: _Keys) -> Family:
    architectures = keys.values.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    family = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if family is None:
        raise UnsupportedModel(
            f"{keys.label}: architecture {name!r} is not implemented; "
            f"known are {', '.join(ARCHITECTURES)}"
        )
    return family


def _refuse_variants(keys: _Keys) -> None:
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


def _rope_values(keys: _Keys) -> _Keys:
    """The rotary settings: `rope_parameters` (new), or `rope_scaling` beside `rope_theta` (old)."""
    for name in ("rope_parameters", "rope_scaling"):
        value = keys.values.get(name)
        if isinstance(value, dict):
            return _Keys(f"{keys.label}: {name}", value)
        if value is not None:
            raise keys.wrong(name, value)
    return _Keys(keys.label, {})


def _rope_scaling(rope: _Keys) -> RopeScaling | None:
    kind = rope.values.get("rope_type", rope.values.get("type"))
    if kind in (None, "default"):
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=rope.number("factor", 1.0))
    if kind == "llama3":
        return RopeScaling(
            kind="llama3",
            factor=rope.number("factor", 8.0),
            low_freq_factor=rope.number("low_freq_factor", 1.0),
            high_freq_factor=rope.number("high_freq_factor", 4.0),
            original_max_position=rope.integer("original_max_position_embeddings", 8192),
        )
    raise rope.wrong("rope_type", kind)


def _sliding_window(keys: _Keys, family: Family, n_layers: int) -> int | None:
    """The window if all layers slide, None if none does; a mixture is refused."""
    if family == "llama" or keys.values.get("sliding_window") is None:
        return None
    window = keys.integer("sliding_window")
    if family == "mistral":
        return window
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
