"""The files of one model, and how they are found in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentkit_runtime.errors import ModelNotFound

GGUF_PREFERENCE = ("Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "Q4_K_S", "Q4_0", "Q4_1", "F16", "BF16")
"""Which quantisation is taken when a repository offers several: small first, if quality holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of one model."""

    weights: tuple[Path, ...]
    """One `.gguf` file, or one or more `.safetensors` files of the same folder."""
    tokenizer: Path
    """The `.gguf` file, or a folder that has `tokenizer.json` (and `tokenizer_config.json`)."""
    label: str
    """What to call it in messages and listings."""


def files_in_folder(folder: Path, label: str) -> ModelFiles:
    """The model in a folder: safetensors with a `config.json`, or exactly one `.gguf` file.

    Raises `ModelNotFound` if there is none, or several to choose from.
    """
    tensors = sorted(path for path in folder.glob("*.safetensors") if not is_duplicate(path.name))
    if tensors and (folder / "config.json").is_file():
        return ModelFiles(weights=tuple(tensors), tokenizer=folder, label=label)
    quantised = sorted(folder.glob("*.gguf"))
    if len(quantised) == 1:
        return ModelFiles(weights=(quantised[0],), tokenizer=quantised[0], label=label)
    if quantised:
        names = ", ".join(path.name for path in quantised)
        raise ModelNotFound(f"{str(folder)!r} has several models, name one of them: {names}")
    raise ModelNotFound(
        f"{str(folder)!r} holds no model: no .gguf file, and no config.json with .safetensors files"
    )


def is_duplicate(name: str) -> bool:
    """Mistral repositories hold all weights a second time, in their own naming."""
    return name.startswith("consolidated")


def choose_gguf(names: Sequence[str]) -> str | None:
    """The file to take from a repository; None if there is none that is whole."""
    whole = sorted(name for name in names if name.endswith(".gguf") and "-of-" not in name)
    for quantisation in GGUF_PREFERENCE:
        for name in whole:
            if quantisation in name.upper():
                return name
    return whole[0] if whole else None
