"""Next tokens from logits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentkit_runtime.types import SamplingParams

_COLDEST = 1e-20
"""A lower temperature changes no choice, and what is divided by it would overflow."""

_FLOORS = (2.0**-4, 2.0**-8, 2.0**-16, 0.0)
"""Weights above which `top_p` is looked for, in turn."""

Weights = NDArray[np.float32]
"""[vocab] probabilities up to a common factor; the largest is 1."""


class Sampler:
    """Chooses tokens for one generation; holds its random state, so a seed makes it repeatable.

    The choice depends only on this sequence's logits and seed, never on what else is in the batch.
    One random number is drawn for each token that is chosen at a temperature above 0. It must be
    told of every token that the sequence gets, by `accept`: penalties depend on them.
    """

    def __init__(self, params: SamplingParams, prompt: Iterable[int] = ()) -> None:
        self._params = params
        self._random = random.Random(None if params.seed is None else params.seed % 2**64)
        self._generated: Counter[int] = Counter()
        self._counts = bool(params.frequency_penalty or params.presence_penalty)
        self._repeats = params.repetition_penalty != 1.0
        self._seen = set(prompt) if self._repeats else set()

    @property
    def greedy(self) -> bool:
        """True when the most likely token is taken, always."""
        return self._params.temperature == 0

    @property
    def takes_best(self) -> bool:
        """True when the token with the largest logit is taken, always: nothing changes logits."""
        return self.greedy and not (self._counts or self._repeats or self._params.logit_bias)

    def accept(self, token_id: int) -> None:
        """Note a token that the sequence got."""
        if self._counts:
            self._generated[token_id] += 1
        if self._repeats:
            self._seen.add(token_id)

    def choose(self, logits: Tensor) -> int:
        """Return the next token id for `logits` [vocab], float32, on the CPU; may change them.

        Raises:
            ValueError: no token has a finite logit.
        """
        scores: Weights = logits.numpy()
        self._adjust(scores)
        best = int(scores.argmax())  # the first NaN, where there is one
        if not np.isfinite(scores[best]):
            raise ValueError("the model returned no finite logit for this request")
        return best if self.greedy else self._draw(scores, best)

    def _adjust(self, scores: Weights) -> None:
        """Apply what changes logits, in the order of vLLM: repetition, the other penalties, bias.

        A token that a grammar forbids (-inf) stays forbidden.
        """
        params = self._params
        if self._seen:
            at = np.fromiter(self._seen, np.int64)
            seen, factor = scores[at], np.float32(params.repetition_penalty)
            scores[at] = np.where(seen > 0, seen / factor, seen * factor)
        if self._generated:
            at = np.fromiter(self._generated.keys(), np.int64)
            counts = np.fromiter(self._generated.values(), np.float32)
            scores[at] -= params.frequency_penalty * counts + params.presence_penalty
        for token_id, bias in params.logit_bias:
            scores[token_id] += bias

    def _draw(self, scores: Weights, best: int) -> int:
        """Draw by the inverse of the cumulative distribution, in the order of token ids.

        This order does not depend on the logits: a rounding error cannot exchange two tokens.
        """
        params = self._params
        weights = np.exp((scores - scores[best]) / max(params.temperature, _COLDEST))
        if params.min_p:
            weights[weights < params.min_p] = 0.0  # the likeliest one's is 1
        if 0 < params.top_k < len(weights):
            _keep_largest(weights, params.top_k, _kth_largest(weights, params.top_k))
        if params.top_p < 1.0:
            _keep_largest(weights, *_nucleus(weights, params.top_p))
        reached = weights.cumsum(dtype=np.float64)
        # The first token whose share of the sum ends behind the drawn point; none has no weight.
        at = int(reached.searchsorted(self._random.random() * reached[-1], side="right"))
        return at if at < len(reached) else best


def _kth_largest(weights: Weights, k: int) -> float:
    return float(torch.topk(torch.from_numpy(weights), k)[0][-1])


def _nucleus(weights: Weights, top_p: float) -> tuple[int, float]:
    """How many of the largest weights have a share of `top_p`, and the least of them."""
    wanted = top_p * float(weights.sum(dtype=np.float64))
    for floor in _FLOORS:  # the largest is 1; few need to be sorted
        likely = weights[weights > floor]
        if likely.sum(dtype=np.float64) >= wanted:
            break
    likely = np.sort(likely)[::-1]
    n = int(likely.cumsum(dtype=np.float64).searchsorted(wanted)) + 1
    n = min(n, len(likely))  # rounding may leave the sum of all below what is wanted
    return n, float(likely[n - 1])


def _keep_largest(weights: Weights, n: int, least: float) -> None:
    """Set all but the `n` largest weights to 0, of which `least` is the smallest; of equal ones
    the first stay."""
    equal = np.flatnonzero(weights == least)
    n_larger = int((weights > least).sum())
    weights[weights < least] = 0.0
    weights[equal[n - n_larger :]] = 0.0
