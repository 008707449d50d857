"""GGUF metadata -> `ModelConfig`. Keys are those of the GGUF specification, per architecture."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.model.config import Family, ModelConfig, RopeScaling
from agentkit_runtime.model.rope import yarn_attention_factor

FAMILIES: MappingProxyType[str, Family] = MappingProxyType(
    {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "smollm3": "smollm3"}
)
"""GGUF architectures that are implemented. Mistral files carry the architecture `llama`."""

_NO_ROPE_INTERVAL = 4
_ROPE_FREQS = "rope_freqs.weight"


def config_from_gguf(file: GgufFile) -> ModelConfig:
    """Read the model's shape. Raises `UnsupportedModel` naming what is missing or unknown."""
    keys = _Keys(file)
    heads = keys.integer("attention.head_count")
    hidden = keys.integer("embedding_length")
    head_dim = keys.integer("attention.key_length", hidden // heads)
    _refuse_variants(keys, head_dim)
    family = keys.family
    window = keys.optional_integer("attention.sliding_window")
    if family == "llama" and window:
        family = "mistral"
    return ModelConfig(
        family=family,
        n_layers=keys.integer("block_count"),
        hidden=hidden,
        n_heads=heads,
        n_kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate=keys.integer("feed_forward_length"),
        vocab=_vocab(file),
        rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
        rope_theta=keys.number("rope.freq_base", 10_000.0),
        max_position=keys.integer("context_length"),
        rope_scaling=_rope_scaling(keys),
        rope_factors=_rope_factors(file, head_dim),
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        tied_embeddings="output.weight" not in file.tensors,
        sliding_window=window or None,
        no_rope_layers=_no_rope_layers(keys) if family == "smollm3" else frozenset(),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """Typed access to `<architecture>.<name>` metadata."""

    file: GgufFile

    @property
    def architecture(self) -> str:
        value = self.file.metadata.get("general.architecture")
        if not isinstance(value, str):
            raise UnsupportedModel(f"{str(self.file.path)!r}: general.architecture is {value!r}")
        return value

    @property
    def family(self) -> Family:
        family = FAMILIES.get(self.architecture)
        if family is None:
            raise UnsupportedModel(
                f"{str(self.file.path)!r}: architecture {self.architecture!r} is not implemented; "
                f"known are {', '.join(FAMILIES)}"
            )
        return family

    def optional_integer(self, name: str) -> int | None:
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, value)
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.optional_integer(name)
        value = default if value is None else value
        if value is None or value < 1:
            raise self._wrong(name, value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.raw(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, value)
        return float(value)

    def raw(self, name: str) -> object:
        return self.file.metadata.get(f"{self.architecture}.{name}")

    def _wrong(self, name: str, value: object) -> UnsupportedModel:
        key = f"{self.architecture}.{name}"
        return UnsupportedModel(f"{str(self.file.path)!r}: metadata {key!r} is {value!r}")


def _refuse_variants(keys: _Keys, head_dim: int) -> None:
    """Same architecture name, other computation: refuse instead of computing nonsense."""
    path = str(keys.file.path)
    experts = keys.optional_integer("expert_count")
    if experts:
        raise UnsupportedModel(f"{path!r}: mixture of {experts} experts is not implemented")
    rotated = keys.optional_integer("rope.dimension_count")
    if rotated is not None and rotated != head_dim:
        raise UnsupportedModel(
            f"{path!r}: rotary embedding on {rotated} of {head_dim} dimensions is not implemented"
        )
    value_length = keys.optional_integer("attention.value_length")
    if value_length is not None and value_length != head_dim:
        raise UnsupportedModel(
            f"{path!r}: attention.value_length {value_length} differs from key_length {head_dim}"
        )
    for name in ("rope_factors_long.weight", "rope_factors_short.weight"):
        if name in keys.file.tensors:
            raise UnsupportedModel(f"{path!r}: LongRoPE ({name!r}) is not implemented")


def _rope_scaling(keys: _Keys) -> RopeScaling | None:
    kind = keys.raw("rope.scaling.type")
    factor = keys.raw("rope.scaling.factor")
    if kind is None and factor is None:
        factor = keys.raw("rope.scale_linear")
        kind = None if factor is None else "linear"
    if kind in (None, "none"):
        return None
    if kind not in ("linear", "yarn") or not isinstance(factor, (int, float)):
        raise UnsupportedModel(
            f"{str(keys.file.path)!r}: rope scaling {kind!r} with factor {factor!r} "
            "is not implemented; known are 'linear' and 'yarn'"
        )
    if factor == 1.0:
        return None
    return RopeScaling(kind="linear", factor=float(factor)) if kind == "linear" else _yarn(keys)


def _yarn(keys: _Keys) -> RopeScaling:
    factor = keys.number("rope.scaling.factor")
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_position=keys.integer("rope.scaling.original_context_length"),
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=keys.number("rope.scaling.attn_factor", 1.0)
        * yarn_attention_factor(factor),
    )


def _no_rope_layers(keys: _Keys) -> frozenset[int]:
    """Files of SmolLM3 do not say it: llama.cpp, too, takes every fourth layer."""
    return frozenset(range(_NO_ROPE_INTERVAL - 1, keys.integer("block_count"), _NO_ROPE_INTERVAL))


def _rope_factors(file: GgufFile, head_dim: int) -> tuple[float, ...] | None:
    """Llama-3 scaling is stored as one divisor per frequency."""
    if _ROPE_FREQS not in file.tensors:
        return None
    factors = file.tensor(_ROPE_FREQS)
    if factors.shape != (head_dim // 2,):
        raise UnsupportedModel(
            f"{str(file.path)!r}: {_ROPE_FREQS!r} has shape {tuple(factors.shape)}, "
            f"expected ({head_dim // 2},)"
        )
    return tuple(factors.tolist())


def _vocab(file: GgufFile) -> int:
    info = file.tensors.get("token_embd.weight")
    if info is None or len(info.shape) != 2:
        raise UnsupportedModel(f"{str(file.path)!r}: there is no 'token_embd.weight' matrix")
    return info.shape[0]
