"""Pin transformers' logits and greedy tokens of SmolLM2-135M-Instruct on the committed prompts.

Run with torch 2.13.0 and transformers 5.24.0 (see README.md), after make_tokens.py:

    python tests/golden/make_logits.py MODEL.gguf

The weights are the GGUF's, dequantised by transformers to float32. The token ids come from
smollm2_tokens.json: the tokenizer that transformers 5.24 builds from a GGUF loses this model's
digit splitting.

Writes `smollm2_logits.npz`; for each prompt NAME:

    NAME.logits   [vocab] float32, logits after the last token
    NAME.greedy   [32] int64, argmax continuation; an end-of-sequence token does not end it
    NAME.margins  [32] float32, distance between the best and the second logit of each greedy step
    NAME.middle   [3, vocab] float32 and NAME.positions [3] int64, for the prompts in MIDDLE only
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

GOLDEN = Path(__file__).parent
GREEDY_TOKENS = 32
MIDDLE = ("14_long_text",)
"""Prompts whose logits are also kept at a quarter, a half and three quarters of their length."""
LEAST_MARGIN = 2e-3
"""Twice the tolerance of the logits test: below it another correct sum may choose another token."""


def main() -> None:
    """Run every prompt and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    path: Path = parser.parse_args().model
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    sys.stdout.write(f"{model.config}\n")
    tokens = json.loads((GOLDEN / "smollm2_tokens.json").read_text(encoding="ascii"))
    arrays: dict[str, np.ndarray] = {}
    for prompt in tokens["prompts"]:
        arrays |= _golden(model, prompt["name"], prompt["ids"])
    np.savez_compressed(GOLDEN / "smollm2_logits.npz", **arrays)


@torch.inference_mode()
def _golden(model: PreTrainedModel, name: str, ids: list[int]) -> dict[str, np.ndarray]:
    output = model(input_ids=torch.tensor([ids]), use_cache=True)
    logits = output.logits[0].float()
    arrays = {f"{name}.logits": logits[-1].numpy().copy()}
    if name in MIDDLE:
        positions = [len(ids) // 4, len(ids) // 2, len(ids) * 3 // 4]
        arrays[f"{name}.positions"] = np.array(positions, dtype=np.int64)
        arrays[f"{name}.middle"] = logits[positions].numpy().copy()
    greedy, margins = _greedy(model, logits[-1], output.past_key_values)
    arrays[f"{name}.greedy"] = np.array(greedy, dtype=np.int64)
    arrays[f"{name}.margins"] = np.array(margins, dtype=np.float32)
    sys.stdout.write(f"{name}: {len(ids)} tokens, least margin {min(margins):.4f}\n")
    if min(margins) < LEAST_MARGIN:
        raise SystemExit(f"{name}: step {margins.index(min(margins))} is a near tie; reword it")
    return arrays


def _greedy(
    model: PreTrainedModel, last: torch.Tensor, cache: transformers.Cache
) -> tuple[list[int], list[float]]:
    """An explicit argmax loop: `generate` would stop at the end-of-sequence token."""
    greedy: list[int] = []
    margins: list[float] = []
    while True:
        best = last.topk(2)
        greedy.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if len(greedy) == GREEDY_TOKENS:
            return greedy, margins
        output = model(input_ids=torch.tensor([[greedy[-1]]]), cache=cache)
        last = output.logits[0, -1].float()


if __name__ == "__main__":
    main()
