"""Our decoder against transformers on a tiny random checkpoint of each family (make_tiny.py)."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentkit_runtime.loading import ModelFiles, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.model.blocks import Blocks
from agentkit_runtime.model.config import ModelConfig, RopeScaling
from agentkit_runtime.model.decoder import Decoder

TINY = Path(__file__).parent / "tiny"
FOLDERS = sorted(path.name for path in TINY.iterdir())
GGUF = Path(__file__).parent / "tiny_gguf"
GGUF_FILES = sorted(path.stem for path in GGUF.iterdir())
LOGIT_TOLERANCE = 1e-4

BuildDecoder = Callable[[Checkpoint], Decoder]
DecoderRuns = Callable[..., Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Reshaped:
    """A checkpoint whose config claims something else about the same tensors."""

    inner: Checkpoint
    config: ModelConfig

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    def has(self, name: str) -> bool:
        return self.inner.has(name)

    def tensor(self, name: str) -> torch.Tensor:
        return self.inner.tensor(name)

    def blocks(self, name: str) -> Blocks | None:
        return self.inner.blocks(name)


def _open(folder: Path) -> Checkpoint:
    weights = tuple(sorted(folder.glob("*.safetensors")))
    return open_checkpoint(ModelFiles(weights=weights, tokenizer=folder, label=folder.name))


def _open_gguf(name: str) -> Checkpoint:
    path = GGUF / f"{name}.gguf"
    return open_checkpoint(ModelFiles(weights=(path,), tokenizer=path, label=name))


def _golden(name: str) -> Mapping[str, np.ndarray]:
    with np.load(TINY / name / "golden.npz") as arrays:
        return dict(arrays)


def _largest_difference(ours: torch.Tensor, golden: np.ndarray) -> float:
    return float((ours - torch.from_numpy(golden)).abs().max())


@pytest.mark.parametrize("name", FOLDERS)
def test_all_logits_of_a_prompt_equal_transformers(
    name: str, build_decoder: BuildDecoder, decoder_run: DecoderRuns
) -> None:
    golden = _golden(name)
    ids = golden["ids"].tolist()
    run = decoder_run(build_decoder(_open(TINY / name)), [len(ids)])
    (logits,) = run.extend([ids], [range(len(ids))])
    assert _largest_difference(logits, golden["logits"]) < LOGIT_TOLERANCE


@pytest.mark.parametrize("name", GGUF_FILES)
def test_all_logits_of_a_file_from_llama_cpps_converter_equal_transformers(
    name: str, build_decoder: BuildDecoder, decoder_run: DecoderRuns
) -> None:
    """The same weights as GGUF: metadata keys, row order and rope factors are the converter's."""
    golden = _golden(name)
    ids = golden["ids"].tolist()
    run = decoder_run(build_decoder(_open_gguf(name)), [len(ids)])
    (logits,) = run.extend([ids], [range(len(ids))])
    assert _largest_difference(logits, golden["logits"]) < LOGIT_TOLERANCE


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("first", [1, 7, 8, 23, 39])
def test_a_prompt_in_two_chunks_has_the_same_logits_and_greedy_tokens(
    name: str, first: int, build_decoder: BuildDecoder, decoder_run: DecoderRuns
) -> None:
    """Cuts inside, at and behind the sliding window of 8 tokens."""
    golden = _golden(name)
    ids, greedy = golden["ids"].tolist(), golden["greedy"].tolist()
    run = decoder_run(build_decoder(_open(TINY / name)), [len(ids) + len(greedy)])
    (head,) = run.extend([ids[:first]], [range(first)])
    (tail,) = run.extend([ids[first:]], [range(len(ids) - first)])
    assert _largest_difference(torch.cat([head, tail]), golden["logits"]) < LOGIT_TOLERANCE
    assert run.greedy([tail[-1]], len(greedy)) == [greedy]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("llama", {"rope_theta": 10_000.0}),
        ("llama", {"rms_eps": 1e-2}),
        ("llama_rope_llama3", {"rope_scaling": None}),
        ("llama_rope_linear", {"rope_scaling": None}),
        ("mistral_sliding_window", {"sliding_window": None}),
        ("mistral_sliding_window", {"sliding_window": 9}),
        ("qwen2", {"qkv_bias": False}),
        ("qwen2", {"sliding_window": 8}),
        ("qwen3", {"qk_norm": False}),
        ("qwen3_rope_yarn", {"rope_scaling": RopeScaling(kind="linear", factor=4.0)}),
        ("smollm3", {"no_rope_layers": frozenset()}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_wrong_config_would_be_noticed(
    name: str, wrong: dict[str, Any], build_decoder: BuildDecoder, decoder_run: DecoderRuns
) -> None:
    """Negative controls: each golden is sensitive to the feature it is there for."""
    golden = _golden(name)
    ids = golden["ids"].tolist()
    checkpoint = _open(TINY / name)
    changed = Reshaped(checkpoint, dataclasses.replace(checkpoint.config, **wrong))
    assert changed.config != checkpoint.config
    run = decoder_run(build_decoder(changed), [len(ids)])
    (logits,) = run.extend([ids], [range(len(ids))])
    assert _largest_difference(logits, golden["logits"]) > 100 * LOGIT_TOLERANCE


@pytest.mark.parametrize("name", FOLDERS)
def test_the_older_spelling_of_a_config_reads_the_same(name: str, tmp_path: Path) -> None:
    """transformers 4 wrote `rope_theta` and `rope_scaling`, 5 writes `rope_parameters`."""
    folder = Path(shutil.copytree(TINY / name, tmp_path / name))
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config), "utf-8")
    assert _open(folder).config == _open(TINY / name).config


def test_every_family_has_a_golden() -> None:
    assert GGUF_FILES == ["llama_rope_llama3", "qwen2", "qwen3"]
    assert {_open(TINY / name).config.family for name in FOLDERS} == {
        *("llama", "mistral", "qwen2", "qwen3", "smollm3")
    }
