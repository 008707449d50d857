"""Merged LoRA adapters against PEFT's own forward pass (make_lora.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentkit_runtime.loading import ModelFiles, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.loading.lora import AdaptedCheckpoint, load_adapter
from agentkit_runtime.model.decoder import Decoder

GOLDEN = Path(__file__).parent
BASES = {"attention": "qwen2", "all_rank_stabilised": "llama", "patterns": "qwen3"}
LOGIT_TOLERANCE = 1e-4

BuildDecoder = Callable[[Checkpoint], Decoder]
DecoderRuns = Callable[..., Any]


def _base(name: str) -> Checkpoint:
    folder = GOLDEN / "tiny" / BASES[name]
    weights = tuple(sorted(folder.glob("*.safetensors")))
    return open_checkpoint(ModelFiles(weights=weights, tokenizer=folder, label=folder.name))


@pytest.mark.parametrize("name", BASES)
def test_a_merged_adapter_gives_the_logits_that_peft_computes(
    name: str, build_decoder: BuildDecoder, decoder_run: DecoderRuns
) -> None:
    """Ranks and alphas by pattern, rank-stabilised scale, some layers only, an untied head."""
    base = _base(name)
    adapted = AdaptedCheckpoint(base, load_adapter(GOLDEN / "lora" / name, base.config))
    with np.load(GOLDEN / "lora" / name / "golden.npz") as arrays:
        ids, expected = arrays["ids"].tolist(), torch.from_numpy(arrays["logits"])

    def logits(checkpoint: Checkpoint) -> torch.Tensor:
        run = decoder_run(build_decoder(checkpoint), [len(ids)])
        (rows,) = run.extend([ids], [range(len(ids))])
        return rows

    assert float((logits(adapted) - expected).abs().max()) < LOGIT_TOLERANCE
    assert float((logits(base) - expected).abs().max()) > 1000 * LOGIT_TOLERANCE
