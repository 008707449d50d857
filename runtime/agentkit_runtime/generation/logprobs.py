"""Log-probabilities of generated tokens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentkit_runtime.types import TokenLogprob


class RowLogprobs:
    """Natural log-softmax of one row, as the model gave it: before grammar and temperature."""

    def __init__(self, logits: Tensor, n_top: int) -> None:
        """`logits` [vocab] float32 on the CPU; copied. `n_top` alternatives are named."""
        scores: NDArray[np.float32] = logits.numpy()
        shifted = scores - scores.max()
        self._values = shifted - np.log(np.exp(shifted).sum(dtype=np.float64)).astype(np.float32)
        self._n_top = n_top

    def of(self, token_id: int) -> TokenLogprob:
        """Return what the caller is told about a token that was chosen here."""
        return TokenLogprob(
            token_id=token_id, logprob=float(self._values[token_id]), top=self._top()
        )

    def _top(self) -> tuple[tuple[int, float], ...]:
        if not self._n_top:
            return ()
        values, ids = torch.topk(
            torch.from_numpy(self._values), min(self._n_top, len(self._values))
        )
        return tuple(zip(ids.tolist(), values.tolist(), strict=True))


def forced(token_id: int) -> TokenLogprob:
    """Return what the caller is told about a token that the grammar left no choice about."""
    return TokenLogprob(token_id=token_id, logprob=0.0)
