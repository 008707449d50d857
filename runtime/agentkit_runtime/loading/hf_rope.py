"""The rotary part of a `config.json`."""

from __future__ import annotations

from agentkit_runtime.loading.config_keys import Keys
from agentkit_runtime.model.config import RopeScaling
from agentkit_runtime.model.rope import yarn_attention_factor


def rope_values(keys: Keys) -> Keys:
    """The rotary settings: `rope_parameters` (new), or `rope_scaling` beside `rope_theta` (old)."""
    for name in ("rope_parameters", "rope_scaling"):
        value = keys.values.get(name)
        if isinstance(value, dict):
            return Keys(f"{keys.label}: {name}", value)
        if value is not None:
            raise keys.wrong(name, value)
    return Keys(keys.label, {})


def rope_scaling(rope: Keys, trained_positions: int) -> RopeScaling | None:
    """How positions are stretched, if they are. Kinds that are not known are refused."""
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
    if kind == "yarn":
        return _yarn(rope, trained_positions)
    raise rope.wrong("rope_type", kind)


def max_position(trained_positions: int, scaling: RopeScaling | None) -> int:
    """The longest context: configs with YaRN often still name the length before the stretch."""
    if scaling is None or scaling.kind != "yarn":
        return trained_positions
    return max(trained_positions, int(scaling.original_max_position * scaling.factor))


def _yarn(rope: Keys, trained_positions: int) -> RopeScaling:
    for name in ("mscale", "mscale_all_dim"):
        if rope.values.get(name):
            raise rope.wrong(name, rope.values[name])
    original = rope.integer("original_max_position_embeddings", trained_positions)
    factor = rope.number("factor", trained_positions / original)
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_position=original,
        beta_fast=rope.number("beta_fast", 32.0),
        beta_slow=rope.number("beta_slow", 1.0),
        truncate=rope.flag("truncate", True),
        attention_factor=rope.number("attention_factor", yarn_attention_factor(factor)),
    )
