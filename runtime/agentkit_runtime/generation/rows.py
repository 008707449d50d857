"""The logits of one step."""

from __future__ import annotations

import numpy as np
from torch import Tensor


class LogitRows:
    """Logits [R, vocab] float32. What every row needs is computed for all of them in one call."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits
        if logits.device.type == "cpu":
            scores = logits.numpy()
            best = scores.argmax(axis=-1)  # ten times as fast as torch's; finds NaN, too
            peaks = scores[np.arange(len(best)), best]
        else:
            peak, at = logits.max(dim=-1)  # NaN wins here, too
            best, peaks = at.cpu().numpy(), peak.cpu().numpy()
        self._best: list[int] = best.tolist()
        self._finite: list[bool] = np.isfinite(peaks).tolist()

    def finite(self, row: int) -> bool:
        """False when nothing can be chosen from this row: a NaN or an infinity is in it."""
        return self._finite[row]

    def best(self, row: int) -> int:
        """Return the id of the row's most likely token."""
        return self._best[row]

    def scores(self, row: int) -> Tensor:
        """Return [vocab] float32 on the CPU, for this row's owner to change."""
        return self._logits[row].cpu()
