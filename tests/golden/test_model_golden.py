"""Our decoder against transformers, on the real model's dequantised weights (make_logits.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentkit_runtime.loading import ModelFiles, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.model.decoder import Decoder

LOGIT_TOLERANCE = 1e-3
GREEDY_TOKENS = 32
NEAR_TIE = 2 * LOGIT_TOLERANCE

Logits = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What our decoder made of all golden prompts, in one batch."""

    logits: dict[str, torch.Tensor]
    """[rows, vocab]: the middle positions, where golden logits exist for them, then the last."""
    greedy: dict[str, list[int]]


@pytest.fixture(scope="module")
def outcome(
    smollm2_decoder: Decoder,
    golden_tokens: dict[str, Any],
    golden_logits: Logits,
    decoder_run: Callable[..., Any],
) -> Outcome:
    prompts = {prompt["name"]: prompt["ids"] for prompt in golden_tokens["prompts"]}
    run = decoder_run(smollm2_decoder, [len(ids) + GREEDY_TOKENS for ids in prompts.values()])
    rows = [[*_middle(golden_logits, name), len(ids) - 1] for name, ids in prompts.items()]
    logits = run.extend(list(prompts.values()), rows)
    greedy = run.greedy([of_prompt[-1] for of_prompt in logits], GREEDY_TOKENS)
    return Outcome(
        logits=dict(zip(prompts, logits, strict=True)),
        greedy=dict(zip(prompts, greedy, strict=True)),
    )


def _middle(golden_logits: Logits, name: str) -> list[int]:
    positions = golden_logits.get(f"{name}.positions")
    return [] if positions is None else [int(position) for position in positions]


def _largest_difference(ours: torch.Tensor, golden: np.ndarray) -> float:
    return float((ours - torch.from_numpy(golden)).abs().max())


def test_last_logits_of_every_prompt_equal_transformers(
    outcome: Outcome, golden_logits: Logits
) -> None:
    differences = {
        name: _largest_difference(ours[-1], golden_logits[f"{name}.logits"])
        for name, ours in outcome.logits.items()
    }
    assert max(differences.values()) < LOGIT_TOLERANCE, differences


def test_logits_inside_a_long_prompt_equal_transformers(
    outcome: Outcome, golden_logits: Logits
) -> None:
    differences = {
        name: _largest_difference(ours[:-1], golden_logits[f"{name}.middle"])
        for name, ours in outcome.logits.items()
        if f"{name}.middle" in golden_logits
    }
    assert differences.keys() == {"14_long_text"}
    assert max(differences.values()) < LOGIT_TOLERANCE, differences


def test_greedy_tokens_of_every_prompt_equal_transformers(
    outcome: Outcome, golden_logits: Logits
) -> None:
    assert outcome.greedy == {
        name: golden_logits[f"{name}.greedy"].tolist() for name in outcome.greedy
    }


def test_goldens_cover_what_they_promise(
    golden_tokens: dict[str, Any], golden_logits: Logits
) -> None:
    """At least 12 prompts, one token and 1,500 tokens among them, and no greedy step a near tie."""
    lengths = [len(prompt["ids"]) for prompt in golden_tokens["prompts"]]
    assert len(lengths) >= 12
    assert min(lengths) == 1
    assert max(lengths) >= 1500
    margins = [golden_logits[f"{prompt['name']}.margins"] for prompt in golden_tokens["prompts"]]
    assert {margin.shape for margin in margins} == {(GREEDY_TOKENS,)}
    assert min(float(margin.min()) for margin in margins) > NEAR_TIE


def test_skipping_the_rotary_row_order_would_be_noticed(
    smollm2_gguf: Path,
    golden_tokens: dict[str, Any],
    golden_logits: Logits,
    build_decoder: Callable[[Checkpoint], Decoder],
    decoder_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control: Q and K rows as llama.cpp stores them, rotated as halves.

    Perplexity hardly sees this mistake, so the comparison above has to.
    """
    monkeypatch.setattr(
        "agentkit_runtime.loading.gguf_checkpoint.unpermute_rotary_rows",
        lambda weight, n_heads: weight,
    )
    name = "12_prose"
    ids = next(p["ids"] for p in golden_tokens["prompts"] if p["name"] == name)
    files = ModelFiles(weights=(smollm2_gguf,), tokenizer=smollm2_gguf, label="golden")
    run = decoder_run(build_decoder(open_checkpoint(files)), [len(ids)])
    (logits,) = run.extend([ids], [[len(ids) - 1]])
    difference = _largest_difference(logits[0], golden_logits[f"{name}.logits"])
    assert difference > 1000 * LOGIT_TOLERANCE
