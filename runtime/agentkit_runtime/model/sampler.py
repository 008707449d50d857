"""Next tokens from logits."""

from __future__ import annotations

import torch
from torch import Tensor

from agentkit_runtime.types import SamplingParams


class Sampler:
    """Chooses tokens for one generation; holds its random state, so a seed makes it repeatable.

    The choice depends only on this sequence's logits and seed, never on what else is in the batch.
    """

    def __init__(self, params: SamplingParams) -> None:
        self._params = params
        self._generator: torch.Generator | None = None
        if params.temperature > 0:
            self._generator = torch.Generator()
            if params.seed is None:
                self._generator.seed()
            else:
                self._generator.manual_seed(params.seed % 2**63)

    def choose(self, logits: Tensor) -> int:
        """Return the next token id for `logits` [vocab], float32.

        Raises:
            ValueError: no token has a finite logit.
        """
        if not bool(torch.isfinite(logits.max())):
            raise ValueError("the model returned no finite logit for this request")
        if self._generator is None:
            return int(logits.argmax())
        return self._draw(logits.to("cpu"), self._generator)

    def _draw(self, logits: Tensor, generator: torch.Generator) -> int:
        params = self._params
        k = min(params.top_k or logits.numel(), logits.numel())
        values, ids = torch.topk(logits, k)
        # Relative to the largest first: a tiny temperature must not overflow.
        probabilities = torch.softmax((values - values[0]) / params.temperature, dim=-1)
        if params.top_p < 1.0:
            # Keep a token when the ones before it have not reached p yet; the first always stays.
            before = probabilities.cumsum(0) - probabilities
            probabilities = probabilities.masked_fill(before >= params.top_p, 0.0)
        drawn = torch.multinomial(probabilities, 1, generator=generator)
        return int(ids[drawn])
