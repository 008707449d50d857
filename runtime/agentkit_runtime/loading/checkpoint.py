"""The one interface through which the decoder sees weights, whatever file they are in."""

from __future__ import annotations

from typing import Protocol

import torch

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.gguf_checkpoint import GgufCheckpoint
from agentkit_runtime.loading.model_files import ModelFiles
from agentkit_runtime.loading.safetensors_dir import SafetensorsCheckpoint
from agentkit_runtime.model.blocks import Blocks
from agentkit_runtime.model.config import ModelConfig


class Checkpoint(Protocol):
    """Weights of one decoder.

    Names are canonical (Hugging Face Llama style, listed by `layout.expected_shapes`), for example
    `model.layers.0.self_attn.q_proj.weight`. Rotary rows are in half-split order. A checkpoint that
    opened has exactly the expected tensors with the expected shapes.
    """

    @property
    def config(self) -> ModelConfig:
        """Shape and constants of the decoder."""

    @property
    def fingerprint(self) -> str:
        """Identity of the weights: hex SHA-256 over headers, sizes and samples of every tensor."""

    def has(self, name: str) -> bool:
        """Whether `tensor(name)` exists. `lm_head.weight` is absent when embeddings are tied."""

    def tensor(self, name: str) -> torch.Tensor:
        """Decode one tensor, `(out, in)` or `(n,)`, to a new float32 CPU tensor.

        Nothing is kept: the peak memory of loading is the caller's plus one tensor.
        """

    def blocks(self, name: str) -> Blocks | None:
        """The matrix as the integers that the file stores, without any rounding; None if the file
        stores something else."""


def open_checkpoint(files: ModelFiles) -> Checkpoint:
    """Open the weights that `locate` found.

    Raises `UnsupportedModel`, naming the offending value, for anything this runtime cannot compute.
    """
    suffixes = {path.suffix for path in files.weights}
    if suffixes == {".gguf"} and len(files.weights) == 1:
        return GgufCheckpoint(files.weights[0])
    if suffixes == {".safetensors"}:
        return SafetensorsCheckpoint(files.weights)
    raise UnsupportedModel(
        f"{files.label!r}: cannot open weights {[path.name for path in files.weights]}; "
        "give one .gguf file or a folder with .safetensors files"
    )
