"""Merging attention over disjoint sets of keys.

For keys split in parts a and b: `lse = logaddexp(lse_a, lse_b)` and `out = out_a * exp(lse_a -
lse) + out_b * exp(lse_b - lse)` (online softmax, Milakov and Gimelshein, arXiv 1805.02867; the
same rule as in FlashAttention). Exact up to rounding; done in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Accumulator:
    """Collects partial attention results for all rows of one layer.

    Attributes:
        out: [n_rows, heads, head_dim], the merged result so far.
        lse: [n_rows, heads], log-sum-exp of the scaled scores; -inf where nothing was added.
    """

    def __init__(self, n_rows: int, n_heads: int, head_dim: int, *, like: Tensor) -> None:
        self.out = torch.zeros(n_rows, n_heads, head_dim, dtype=like.dtype, device=like.device)
        self.lse = torch.full(
            (n_rows, n_heads), float("-inf"), dtype=torch.float32, device=like.device
        )
        self._touched = [False] * n_rows

    def add(self, row: int, out: Tensor, lse: Tensor) -> None:
        """Merge `out` [n, heads, head_dim] and `lse` [n, heads] into rows [row, row + n)."""
        n = out.shape[0]
        span = slice(row, row + n)
        if not any(self._touched[span]):
            self.out[span] = out
            self.lse[span] = lse
            self._touched[span] = [True] * n
            return
        old = self.lse[span]
        new = torch.logaddexp(old, lse)
        # A row with no visible key on either side has lse -inf; -inf - -inf would be nan.
        safe = new.masked_fill(new == float("-inf"), 0.0)
        keep = torch.exp(old - safe).unsqueeze(-1)
        take = torch.exp(lse - safe).unsqueeze(-1)
        self.out[span] = (self.out[span] * keep + out * take).to(self.out.dtype)
        self.lse[span] = new
        self._touched[span] = [True] * n
