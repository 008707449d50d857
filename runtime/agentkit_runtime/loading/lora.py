"""LoRA adapters in PEFT's folder format, merged into the weights as they are read.

`W + scale * B @ A` (Hu et al., arXiv 2106.09685), `scale` being alpha / r, or alpha / sqrt(r) for
rank-stabilised adapters (arXiv 2312.03732). The names in the file decide what is adapted: they are
what training has left, while `target_modules` is what it was asked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from safetensors import SafetensorError, safe_open

from agentkit_runtime.errors import ModelNotFound, UnsupportedModel
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.loading.config_keys import JsonObject, Keys
from agentkit_runtime.loading.hashing import file_sha256
from agentkit_runtime.loading.layout import EMBEDDING, expected_shapes
from agentkit_runtime.model.blocks import Blocks
from agentkit_runtime.model.config import ModelConfig

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"

_REPLACED = re.compile(r"base_model\.model\.(?P<module>.+?)(?:\.base_layer)?\.weight")
_KEY = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<matrix>[AB])\.weight")
_REFUSED_UNLESS_EMPTY = (
    "use_dora",
    "use_qalora",
    "fan_in_fan_out",
    "lora_bias",
    "trainable_token_indices",
    "target_parameters",
    "layer_replication",
    "alora_invocation_tokens",
)
"""Settings that change the computation in a way that is not implemented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What an adapter adds to one matrix: `scale * b @ a`."""

    a: torch.Tensor
    """float32 [r, in]."""
    b: torch.Tensor
    """float32 [out, r]."""
    scale: float

    def applied_to(self, weight: torch.Tensor) -> torch.Tensor:
        """`weight` [out, in] with the adapter, a new tensor."""
        return torch.addmm(weight, self.b, self.a, alpha=self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraAdapter:
    """One adapter."""

    fingerprint: str
    """Hex SHA-256 over configuration and weights."""
    deltas: Mapping[str, Delta]
    """By canonical tensor name."""
    replaced: Mapping[str, torch.Tensor]
    """Whole tensors in place of the base's, float32 (`modules_to_save`, resp. PEFT's copies of a
    head's base). A delta is added to these, if there is one."""

    def changes(self, name: str) -> bool:
        """Whether a tensor is another one than in the base."""
        return name in self.deltas or name in self.replaced


class AdaptedCheckpoint:
    """A checkpoint with an adapter merged into it. See `Checkpoint` for the contract.

    Attributes:
        adapter: the adapter's fingerprint, for `kv.namespace.Identity`.
        fingerprint: of base and adapter together.
    """

    def __init__(self, base: Checkpoint, adapter: LoraAdapter) -> None:
        self.config = base.config
        self.adapter = adapter.fingerprint
        self.fingerprint = f"{base.fingerprint}+{adapter.fingerprint}"
        self._base = base
        self._adapter = adapter

    def has(self, name: str) -> bool:
        """Whether `tensor(name)` exists."""
        return self._base.has(name)

    def tensor(self, name: str) -> torch.Tensor:
        """Decode one tensor, and add what the adapter adds."""
        weight = self._adapter.replaced.get(name)
        weight = self._base.tensor(name) if weight is None else weight.clone()
        delta = self._adapter.deltas.get(name)
        return weight if delta is None else delta.applied_to(weight)

    def blocks(self, name: str) -> Blocks | None:
        """The file's integers, where the adapter has not changed the matrix."""
        return None if self._adapter.changes(name) else self._base.blocks(name)


def load_adapter(folder: Path, config: ModelConfig) -> LoraAdapter:
    """Read an adapter for a model of this shape.

    Raises:
        ModelNotFound: the folder has not the two files of an adapter.
        UnsupportedModel: it does not fit the model, or needs what is not implemented.
    """
    for name in (CONFIG_NAME, WEIGHTS_NAME):
        if not (folder / name).is_file():
            raise ModelNotFound(
                f"{str(folder)!r} holds no LoRA adapter: there is no {name}; give a folder that "
                "PEFT's save_pretrained wrote"
            )
    values = _read_config(folder / CONFIG_NAME)
    keys = Keys(f"{str(folder)!r}: {CONFIG_NAME}", values)
    _refuse_variants(keys)
    matrices, replaced = _read_tensors(folder / WEIGHTS_NAME)
    label = repr(str(folder))
    shapes = expected_shapes(config)
    for name, tensor in replaced.items():
        _check_replaced(label, config, name, tensor, shapes)
    deltas = {
        f"{module}.weight": _delta(label, keys, module, parts, shapes)
        for module, parts in matrices.items()
    }
    digest = hashlib.sha256(b"agentkit-lora-v1")
    digest.update(json.dumps(dict(values), sort_keys=True).encode())
    digest.update(file_sha256(folder / WEIGHTS_NAME).encode())
    return LoraAdapter(fingerprint=digest.hexdigest(), deltas=deltas, replaced=replaced)


def _read_config(path: Path) -> JsonObject:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedModel(f"{str(path)!r} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UnsupportedModel(f"{str(path)!r} does not hold a JSON object")
    return values


def _refuse_variants(keys: Keys) -> None:
    kind = keys.values.get("peft_type")
    if kind != "LORA":
        raise keys.wrong("peft_type", kind)
    if keys.values.get("bias", "none") != "none":
        raise keys.wrong("bias", keys.values["bias"])
    for name in _REFUSED_UNLESS_EMPTY:
        if keys.values.get(name):
            raise keys.wrong(name, keys.values[name])


_Matrices: TypeAlias = dict[str, dict[str, torch.Tensor]]


def _read_tensors(path: Path) -> tuple[_Matrices, dict[str, torch.Tensor]]:
    """Module -> {"A": [r, in], "B": [out, r]}, and whole tensors by canonical name; float32."""
    matrices: _Matrices = {}
    replaced: dict[str, torch.Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 (not a mapping)
                tensor = file.get_tensor(key).float()
                if match := _KEY.fullmatch(key):
                    matrices.setdefault(match["module"], {})[match["matrix"]] = tensor
                elif match := _REPLACED.fullmatch(key):
                    replaced[f"{match['module']}.weight"] = tensor
                else:
                    raise UnsupportedModel(
                        f"{str(path)!r}: tensor {key!r} is neither a LoRA matrix of a linear layer "
                        "nor a whole weight, and nothing else is implemented"
                    )
    except SafetensorError as error:
        raise UnsupportedModel(
            f"{str(path)!r} is not a whole safetensors file: {error}; download it again"
        ) from error
    if not matrices and not replaced:
        raise UnsupportedModel(f"{str(path)!r} holds no tensors")
    return matrices, replaced


def _check_replaced(
    label: str,
    config: ModelConfig,
    name: str,
    tensor: torch.Tensor,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    shape = shapes.get(name)
    if shape is None or (name == EMBEDDING and config.tied_embeddings):
        tied = " (embedding and head are tied here)" if config.tied_embeddings else ""
        raise UnsupportedModel(
            f"{label}: the adapter replaces {name!r}, which cannot be done{tied}"
        )
    if tuple(tensor.shape) != shape:
        raise UnsupportedModel(
            f"{label}: the adapter replaces {name!r} by shape {tuple(tensor.shape)}, the model has "
            f"{shape}; a changed vocabulary is not implemented"
        )


def _delta(
    label: str,
    keys: Keys,
    module: str,
    parts: Mapping[str, torch.Tensor],
    shapes: Mapping[str, tuple[int, ...]],
) -> Delta:
    name = f"{module}.weight"
    shape = shapes.get(name)
    if shape is None or len(shape) != 2 or name == EMBEDDING:
        raise UnsupportedModel(
            f"{label}: the adapter changes {module!r}, which is no projection of this model"
            + (" (its head is tied to the embedding)" if module == "lm_head" else "")
        )
    if len(parts) != 2:
        raise UnsupportedModel(f"{label}: {module!r} has only its {next(iter(parts))} matrix")
    a, b = parts["A"], parts["B"]
    rank = int(_pattern(keys, "rank_pattern", module, keys.integer("r")))
    if tuple(a.shape) != (rank, shape[1]) or tuple(b.shape) != (shape[0], rank):
        raise UnsupportedModel(
            f"{label}: {module!r} has A {tuple(a.shape)} and B {tuple(b.shape)}; rank {rank} and "
            f"the model ask for {(rank, shape[1])} and {(shape[0], rank)}"
        )
    alpha = _pattern(keys, "alpha_pattern", module, keys.number("lora_alpha", 8.0))
    stabilised = keys.flag("use_rslora")
    return Delta(a=a, b=b, scale=alpha / (rank**0.5 if stabilised else rank))


def _pattern(keys: Keys, name: str, module: str, default: float) -> float:
    """The value of the first pattern that matches the end of the module's name, as PEFT does."""
    patterns = keys.values.get(name) or {}
    if not isinstance(patterns, dict):
        raise keys.wrong(name, patterns)
    for pattern in _matching(patterns, module):
        return Keys(f"{keys.label}: {name}", patterns).number(pattern, default)
    return default


def _matching(patterns: Iterable[str], module: str) -> Iterable[str]:
    return (pattern for pattern in patterns if re.fullmatch(rf"(.*\.)?({pattern})", module))
