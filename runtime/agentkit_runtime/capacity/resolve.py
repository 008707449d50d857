"""The shape of a model, without reading its weights."""

from __future__ import annotations

import json
from pathlib import Path

from agentkit_runtime.capacity.shapes import SHAPES
from agentkit_runtime.errors import ModelNotFound, UnsupportedModel
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.spelling import or_meant


def resolve_shape(model: str) -> tuple[str, ModelConfig]:
    """The label and shape of a known name, a `config.json`, a model folder or a `.gguf` file.

    Nothing is fetched.

    Raises:
        ModelNotFound: `model` is none of these.
        UnsupportedModel: the file describes a model that this runtime does not know.
    """
    known = SHAPES.get(_ALIASES.get(model, model))
    if known is not None:
        return _ALIASES.get(model, model), known
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        # Here and below: known shapes must not wait for torch.
        from agentkit_runtime.loading.gguf_config import config_from_gguf
        from agentkit_runtime.loading.gguf_file import GgufFile

        return path.stem, config_from_gguf(GgufFile(path))
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return path.parent.name or path.name, _from_json(path)
    raise ModelNotFound(
        f"{model!r} is no config.json, model folder or .gguf file here, and none of the known "
        f"shapes{or_meant(model, SHAPES)} There are: {', '.join(SHAPES)}"
    )


_ALIASES = {"smollm2": "smollm2-135m"}
"""Built-in names of `loading.builtin`."""

_BIASED = frozenset({"Qwen2ForCausalLM"})
_NORMED = frozenset({"Qwen3ForCausalLM"})
"""Architectures whose layers have more than a config says: a folder's tensors would tell."""


def _from_json(path: Path) -> ModelConfig:
    from agentkit_runtime.loading.hf_config import config_from_hf

    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedModel(f"{str(path)!r} is not JSON ({error})") from error
    if not isinstance(values, dict):
        raise UnsupportedModel(f"{str(path)!r} is a {type(values).__name__}, not a model's config")
    families = set(values.get("architectures") or ())
    attention = "model.layers.0.self_attn"
    names = {f"{attention}.q_proj.bias"} if families & _BIASED else set()
    names |= {f"{attention}.q_norm.weight"} if families & _NORMED else set()
    return config_from_hf(str(path), values, names)
