"""The benchmark of quality measures what it says, on a tiny model."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch.nn import functional

from agentkit_runtime.kv.format import KvFormat
from bench.quality import Reading, perplexity
from tests.runtime.formats.tiny import CONFIG, logits_at_once, tiny_decoder

IDS = [random.Random(1).randrange(CONFIG.vocab) for _ in range(96)]


@pytest.mark.parametrize("chunk", [7, 16, 48])
def test_perplexity_is_that_of_whole_windows_whatever_the_chunks(chunk: int) -> None:
    decoder = tiny_decoder()
    losses = []
    for window in (IDS[:48], IDS[48:]):
        logits = logits_at_once(decoder, KvFormat.FLOAT32, window)[:-1]
        losses.append(functional.cross_entropy(logits, torch.tensor(window[1:])))
    expected = math.exp(float(torch.stack(losses).mean()))
    reading = Reading(n_tokens=96, window=48, chunk=chunk)
    assert perplexity(decoder, KvFormat.FLOAT32, IDS, reading) == pytest.approx(expected, rel=1e-4)


def test_coarser_formats_are_seen() -> None:
    decoder, reading = tiny_decoder(), Reading(n_tokens=96, window=48, chunk=16)
    base = perplexity(decoder, KvFormat.FLOAT32, IDS, reading)
    found = {f: perplexity(decoder, f, IDS, reading) for f in (KvFormat.FLOAT16, KvFormat.INT4)}
    assert abs(found[KvFormat.INT4] - base) > 10 * abs(found[KvFormat.FLOAT16] - base)
