"""Where two sequences part."""

from __future__ import annotations

from collections.abc import Sequence


def n_common(first: Sequence[object], second: Sequence[object]) -> int:
    """How many leading items, characters or ids, both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(first), len(second)))
