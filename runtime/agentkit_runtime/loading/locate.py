"""From what a user writes to files on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of one model."""

    weights: tuple[Path, ...]
    """One `.gguf` file, or one or more `.safetensors` files of the same folder."""
    tokenizer: Path
    """The `.gguf` file, or a folder that has `tokenizer.json` (and `tokenizer_config.json`)."""
    label: str
    """What the user called it, for messages and listings."""
