"""What a decoder's shape is. Read from GGUF metadata or `config.json` by `loading`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["llama", "mistral", "qwen2", "qwen3", "smollm3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """Llama-3 frequency scaling (`rope_type: llama3`), YaRN (`yarn`) or plain linear scaling."""

    kind: Literal["llama3", "linear", "yarn"]
    factor: float
    low_freq_factor: float = 1.0
    """llama3 only, like `high_freq_factor`."""
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    """What the model was trained on before it was stretched (llama3, yarn)."""
    beta_fast: float = 32.0
    """yarn: waves that turn at least this often in the original context stay as they are."""
    beta_slow: float = 1.0
    """yarn: waves that turn less often than this are slowed by `factor`."""
    truncate: bool = True
    """yarn: the two borders are rounded outwards to whole frequencies."""
    attention_factor: float = 1.0
    """yarn: queries and keys are multiplied by this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shape and constants of a Llama-family decoder."""

    family: Family
    n_layers: int
    hidden: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    rms_eps: float
    rope_theta: float
    max_position: int
    rope_scaling: RopeScaling | None = None
    rope_factors: tuple[float, ...] | None = None
    """Per-frequency divisors (GGUF `rope_freqs.weight`); replaces `rope_scaling` where present."""
    qkv_bias: bool = False
    qk_norm: bool = False
    tied_embeddings: bool = False
    sliding_window: int | None = None
    no_rope_layers: frozenset[int] = frozenset()
    """Layers whose queries and keys are not rotated (SmolLM3: every fourth)."""

    @property
    def block_weights(self) -> int:
        """Weights of the layers: what each token is multiplied with, without embeddings."""
        attention = 2 * (self.n_heads + self.n_kv_heads) * self.head_dim
        return self.n_layers * self.hidden * (attention + 3 * self.intermediate)

    def __post_init__(self) -> None:
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads {self.n_heads} must be a multiple of n_kv_heads {self.n_kv_heads}"
            )
