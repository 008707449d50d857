"""Write the tiny random checkpoints in `tiny/` and the logits that transformers computes for them.

Run with torch 2.13.0 and transformers 5.24.0 (see README.md):

    python tests/golden/make_tiny.py

Each folder is a checkpoint as it would lie on a hub (config.json and safetensors) plus
`golden.npz`: `ids` [T] int64, `logits` [T, vocab] float32 of one full forward pass with eager
attention, and `greedy` [16] int64. The logits are computed after *reloading* the folder, so they
belong to the committed bytes (rounded to the stored dtype) and to the committed config.

Default initialisation (std 0.02) would give near-uniform attention, which forgives almost every
mistake. Weights here are scaled so that attention is peaked, norms and biases are not ones and
zeros, and the script stops when a folder's special feature does not move its logits.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

TINY = Path(__file__).parent / "tiny"
PROMPT_TOKENS = 40
GREEDY_TOKENS = 16
GREEDY_MARGIN = 0.02
"""Least distance between the best and the second best logit of every greedy step."""
SENSITIVITY = 0.05
"""Least change of some logit when a folder's special feature is switched off."""

SHAPE: dict[str, object] = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One folder: how to build and store it, and which config edit must change its logits."""

    folder: str
    model: type[PreTrainedModel]
    config: type
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict)
    stored_dtype: torch.dtype = torch.bfloat16
    shard_size: str = "5GB"
    edits: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Put into config.json after saving (None removes): what hubs have and transformers drops."""
    switch_off: Mapping[str, object] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """What is stored for one folder: ids [T], logits [T, vocab], greedy [GREEDY_TOKENS]."""

    ids: np.ndarray
    logits: np.ndarray
    greedy: np.ndarray
    margin: float


def _rope(kind: str, theta: float, **values: float) -> dict[str, object]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **values}}


# Head size 16 and theta 10000 give the wavelengths 6.3, 19.9, 62.8, 199, ... tokens. With 64
# original positions the llama3 rule keeps the first, blends two and divides the rest: all three
# branches run.
_LLAMA3 = _rope(
    "llama3",
    10000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)

RECIPES = (
    Recipe(
        folder="llama",
        model=LlamaForCausalLM,
        config=LlamaConfig,
        settings={"rms_norm_eps": 1e-5, "intermediate_size": 80, **_rope("default", 100000.0)},
        stored_dtype=torch.float32,
        switch_off=_rope("default", 10000.0),
    ),
    Recipe(
        folder="llama_rope_llama3",
        model=LlamaForCausalLM,
        config=LlamaConfig,
        settings={**_LLAMA3, "num_hidden_layers": 3, "tie_word_embeddings": True},
        switch_off=_rope("default", 10000.0),
    ),
    Recipe(
        folder="llama_rope_linear",
        model=LlamaForCausalLM,
        config=LlamaConfig,
        settings=_rope("linear", 10000.0, factor=4.0),
        stored_dtype=torch.float16,
        switch_off=_rope("default", 10000.0),
    ),
    Recipe(
        folder="mistral",
        model=MistralForCausalLM,
        config=MistralConfig,
        # Mistral-Nemo's shape: heads x head size is not the hidden size.
        settings={"head_dim": 32, "sliding_window": None, **_rope("default", 1000000.0)},
        shard_size="100KB",
        switch_off=_rope("default", 10000.0),
    ),
    Recipe(
        folder="mistral_sliding_window",
        model=MistralForCausalLM,
        config=MistralConfig,
        settings={"sliding_window": 8, "num_hidden_layers": 3},
        switch_off={"sliding_window": None},
    ),
    Recipe(
        folder="qwen2",
        model=Qwen2ForCausalLM,
        config=Qwen2Config,
        settings={"tie_word_embeddings": True, "rms_norm_eps": 1e-6},
        # Hub configs of Qwen2 and 2.5 name a window and switch it off beside it.
        edits={"sliding_window": 8, "max_window_layers": 1, "layer_types": None},
        # The other way round: what a loader computes that takes the window at its word.
        switch_off={"sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]},
    ),
    Recipe(
        folder="qwen3",
        model=Qwen3ForCausalLM,
        config=Qwen3Config,
        # Qwen3's shape: heads x head size is not the hidden size.
        settings={"head_dim": 32, "rms_norm_eps": 1e-6, **_rope("default", 1000000.0)},
        switch_off=_rope("default", 10000.0),
    ),
    Recipe(
        folder="qwen3_rope_yarn",
        model=Qwen3ForCausalLM,
        config=Qwen3Config,
        # Wavelengths as above, 32 original positions: pairs are kept, blended and divided.
        settings={
            "head_dim": 16,
            **_rope("yarn", 10000.0, factor=4.0, original_max_position_embeddings=32),
        },
        switch_off=_rope("linear", 10000.0, factor=4.0),
    ),
    Recipe(
        folder="smollm3",
        model=SmolLM3ForCausalLM,
        config=SmolLM3Config,
        settings={
            "num_hidden_layers": 5,
            "tie_word_embeddings": True,
            "pad_token_id": None,
            **_rope("default", 50000.0),
        },
        switch_off={"no_rope_layers": [1, 1, 1, 1, 1]},
    ),
)


def main() -> None:
    """Write the folders named on the command line anew; without names, all of them."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    chosen = set(sys.argv[1:])
    for number, recipe in enumerate(RECIPES):
        if chosen and recipe.folder not in chosen:
            continue
        folder = TINY / recipe.folder
        shutil.rmtree(folder, ignore_errors=True)
        _save_checkpoint(recipe, folder, seed=1000 + number)
        golden = _decisive_golden(_load(folder), seed=2000 + 100 * number)
        changed = _change_when_switched_off(recipe, folder, golden)
        np.savez_compressed(
            folder / "golden.npz", ids=golden.ids, logits=golden.logits, greedy=golden.greedy
        )
        size_kb = sum(path.stat().st_size for path in folder.iterdir()) / 1000
        sys.stdout.write(
            f"{recipe.folder}: {size_kb:.0f} kB, largest logit {np.abs(golden.logits).max():.2f}, "
            f"least greedy margin {golden.margin:.4f}, feature moves logits by {changed:.3f}\n"
        )


def _save_checkpoint(recipe: Recipe, folder: Path, *, seed: int) -> None:
    config = recipe.config(**{**SHAPE, **recipe.settings})
    model = recipe.model(config)
    _randomise(model, torch.Generator().manual_seed(seed))
    model.to(recipe.stored_dtype).save_pretrained(folder, max_shard_size=recipe.shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "config.json"
    config_json = json.loads(path.read_text(encoding="utf-8")) | dict(recipe.edits)
    for key in (key for key, value in recipe.edits.items() if value is None):
        del config_json[key]
    path.write_text(json.dumps(config_json, indent=2) + "\n", encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o644)


@torch.no_grad()
def _randomise(model: PreTrainedModel, generator: torch.Generator) -> None:
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("bias"):
            parameter.copy_(0.5 * noise)
        elif "norm" in name:
            parameter.copy_(1.0 + 0.3 * noise)
        elif "embed_tokens" in name:
            parameter.copy_(0.3 * noise)
        else:
            gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.2
            parameter.copy_(gain * noise / parameter.shape[-1] ** 0.5)


def _load(folder: Path, **overrides: object) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **overrides
    ).eval()


def _decisive_golden(model: PreTrainedModel, *, seed: int) -> Golden:
    """The golden of the first random prompt whose greedy continuation has no near tie."""
    while True:
        ids = np.random.default_rng(seed).integers(0, 256, PROMPT_TOKENS, dtype=np.int64)
        golden = _golden(model, ids)
        if golden.margin >= GREEDY_MARGIN:
            return golden
        seed += 1


def _golden(model: PreTrainedModel, ids: np.ndarray) -> Golden:
    tokens, margins = list(ids), []
    for _ in range(GREEDY_TOKENS):
        last = _logits(model, np.array(tokens))[-1]
        second, first = np.sort(last)[-2:]
        margins.append(float(first - second))
        tokens.append(int(last.argmax()))
    greedy = np.array(tokens[len(ids) :], dtype=np.int64)
    return Golden(ids=ids, logits=_logits(model, ids), greedy=greedy, margin=min(margins))


@torch.no_grad()
def _logits(model: PreTrainedModel, ids: np.ndarray) -> np.ndarray:
    """Logits [T, vocab] of one full pass over `ids` [T], without a KV cache."""
    output = model(input_ids=torch.from_numpy(ids)[None], use_cache=False)
    return output.logits[0].float().numpy()


def _change_when_switched_off(recipe: Recipe, folder: Path, golden: Golden) -> float:
    """How far the logits move without the feature; a golden that cannot tell proves nothing."""
    if recipe.switch_off is None:
        return float("nan")
    other = _logits(_load(folder, **recipe.switch_off), golden.ids)
    changed = float(np.abs(other - golden.logits).max())
    if changed < SENSITIVITY:
        raise SystemExit(f"{recipe.folder}: {recipe.switch_off!r} moves logits by {changed!r} only")
    return changed


if __name__ == "__main__":
    main()
