"""Write the LoRA adapters in `lora/` and the logits that PEFT computes with them.

Run with torch 2.13.0, transformers 5.24.0 and peft 0.21.2, behind `make_tiny.py`:

    python tests/golden/make_lora.py

Each folder is an adapter as PEFT stores it, plus `golden.npz`: `ids` [T] int64 and `logits`
[T, vocab] float32 of the adapted model. The logits come from PEFT's own forward pass, with the
adapter beside the weights, not merged.
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
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

GOLDEN = Path(__file__).parent
LEAST_CHANGE = 0.5
"""Least distance of some logit from the bare model's."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One adapter."""

    folder: str
    base: str
    settings: Mapping[str, object]


RECIPES = (
    Recipe(
        folder="attention",
        base="qwen2",
        settings={"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "v_proj"]},
    ),
    Recipe(
        folder="all_rank_stabilised",
        base="llama",
        settings={
            "r": 4,
            "lora_alpha": 6,
            "use_rslora": True,
            "target_modules": [
                *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
            ],
            "layers_to_transform": [1],
        },
    ),
    Recipe(
        folder="patterns",
        base="qwen3",
        settings={
            "r": 4,
            "lora_alpha": 8,
            "target_modules": ["k_proj", "o_proj", "gate_proj", "down_proj", "lm_head"],
            "rank_pattern": {r"layers\.0\.mlp\.gate_proj": 2, "o_proj": 6},
            "alpha_pattern": {r"self_attn\.k_proj": 20, "down_proj": 3},
        },
    ),
)


def main() -> None:
    """Write every folder anew."""
    torch.set_num_threads(1)
    for number, recipe in enumerate(RECIPES):
        target = GOLDEN / "lora" / recipe.folder
        shutil.rmtree(target, ignore_errors=True)
        _save_adapter(recipe, target, seed=3000 + number)
        bare = _base(recipe)
        ids = np.random.default_rng(number).integers(0, 256, 24, dtype=np.int64)
        before = _logits(bare, ids)
        logits = _logits(PeftModel.from_pretrained(bare, target).eval(), ids)
        changed = float(np.abs(logits - before).max())
        if changed < LEAST_CHANGE:
            raise SystemExit(f"{recipe.folder}: the adapter moves logits by {changed!r} only")
        np.savez_compressed(target / "golden.npz", ids=ids, logits=logits)
        sys.stdout.write(f"{recipe.folder}: the adapter moves logits by {changed:.3f}\n")


def _save_adapter(recipe: Recipe, target: Path, *, seed: int) -> None:
    model = get_peft_model(_base(recipe), LoraConfig(task_type="CAUSAL_LM", **recipe.settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(target)
    config = target / "adapter_config.json"
    values = json.loads(config.read_text("utf-8"))
    values["base_model_name_or_path"] = recipe.base  # and not where it lay when this was made
    config.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", "utf-8")
    (target / "README.md").unlink(missing_ok=True)
    for file in target.iterdir():
        file.chmod(0o644)


def _base(recipe: Recipe) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(
        GOLDEN / "tiny" / recipe.base, dtype=torch.float32, attn_implementation="eager"
    ).eval()


@torch.no_grad()
def _logits(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    output = model(input_ids=torch.from_numpy(ids)[None], use_cache=False)
    return output.logits[0].float().numpy()


if __name__ == "__main__":
    main()
