"""What goes wrong while a soak runs: steps without memory, broken kernels, logits that are NaN."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import torch

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.model.decoder import Decoder

if TYPE_CHECKING:
    from torch import Tensor

    from agentkit_runtime.attention.base import AttentionBackend
    from agentkit_runtime.model.config import ModelConfig

EXPECTED = (
    "the step failed: RuntimeError: injected",
    "the step failed: OutOfMemoryError: injected",
    "the model returned no finite logit",
    "ValueError: the model returned no finite logit",
)
"""How the errors of requests begin that met a fault."""


class FaultyDecoder:
    """A decoder that fails now and then; stands in for `Decoder` in a core."""

    def __init__(self, decoder: Decoder, rng: random.Random, rate: float) -> None:
        """Each kind of fault comes with a probability of `rate` a step."""
        self._decoder = decoder
        self._rng = rng
        self._rate = rate
        self.counts: Counter[str] = Counter()
        """Faults so far, by kind."""

    @property
    def config(self) -> ModelConfig:
        """See `Decoder`."""
        return self._decoder.config

    @property
    def attention(self) -> AttentionBackend:
        """See `Decoder`."""
        return self._decoder.attention

    def forward(self, batch: ForwardBatch, storage: KvStorage) -> Tensor:
        """See `Decoder.forward`."""
        if self._strikes("no memory"):
            raise torch.OutOfMemoryError("injected")
        if self._strikes("broken kernel"):
            raise RuntimeError("injected")
        logits = self._decoder.forward(batch, storage)
        if len(logits) and self._strikes("no number"):
            logits[self._rng.randrange(len(logits))] = float("nan")
        return logits

    def _strikes(self, kind: str) -> bool:
        strikes = self._rng.random() < self._rate
        self.counts[kind] += strikes
        return strikes
