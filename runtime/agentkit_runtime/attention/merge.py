"""Merging attention over disjoint sets of keys.

For keys split in parts a and b: `lse = logaddexp(lse_a, lse_b)` and `out = out_a + w * (out_b -
out_a)` with `w = exp(lse_b - lse) = sigmoid(lse_b - lse_a)` (online softmax, Milakov and
Gimelshein, arXiv 1805.02867; the same rule as in FlashAttention). Exact up to rounding; done in
float32.

Rows here are *folded*: query heads that share a KV head are rows of that head, so a state has
`rows * group` rows of `kv_heads` heads, in the order row, head of the group.
"""

from __future__ import annotations

import torch
from torch import Tensor


class MergeState:
    """Collects partial results of all rows of one layer.

    Args:
        n_rows: folded rows.
        empty_rows: True when a row may be merged before it was first set. Without such rows nothing
            needs to be cleared.
    """

    def __init__(self, n_rows: int, *, empty_rows: bool) -> None:
        self._n_rows, self._empty_rows = n_rows, empty_rows
        self._out: Tensor | None = None
        self._lse: Tensor | None = None

    @property
    def out(self) -> Tensor:
        """[n_rows, heads, head_dim] float32."""
        assert self._out is not None, "a plan has at least one part"
        return self._out

    def set(self, rows: slice, out: Tensor, lse: Tensor) -> None:
        """Take `out` [n, heads, head_dim] and `lse` [n, heads] as the first result of `rows`.

        The tensors are the state's from now on.
        """
        if self._out is None and out.shape[0] == self._n_rows:
            self._out, self._lse = out.float(), lse
            return
        state_out, state_lse = self._state(out)
        state_out[rows] = out
        state_lse[rows] = lse

    def merge(
        self, rows: slice, out: Tensor, lse: Tensor, *, last: bool = False, blind: bool = False
    ) -> None:
        """Merge a result into `rows`.

        Args:
            rows: which.
            out: as for `set`.
            lse: as for `set`.
            last: these rows are not merged again.
            blind: some of the rows may have seen no key so far, here nor before.
        """
        state_out, state_lse = self._state(out)
        old = state_lse[rows]
        weight = torch.sigmoid(lse - old)
        if blind:  # nothing and nothing is nothing: -inf less -inf is no number
            weight.nan_to_num_(0.0)
        if not last:
            state_lse[rows] = torch.logaddexp(old, lse)
        state_out[rows].lerp_(out.float(), weight.unsqueeze(-1))

    def _state(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The tensors, made when the first result comes that is not all there is."""
        if self._out is None or self._lse is None:
            shape = (self._n_rows, *like.shape[1:])
            self._out = torch.empty(shape, dtype=torch.float32, device=like.device)
            self._lse = torch.empty(shape[:2], dtype=torch.float32, device=like.device)
            if self._empty_rows:
                self._out.zero_()
                self._lse.fill_(float("-inf"))
        return self._out, self._lse
