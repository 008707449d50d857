"""Token estimates, corrected by what the provider has counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentkit.caching.request import CacheRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A prompt whose tokens the provider has counted."""

    n_blocks: int
    estimated: int
    actual: int


class TokenScale:
    """Tokens of one model. The first estimate may be off by a third, later ones by a few."""

    def __init__(self) -> None:
        self._ratio = 1.0

    def learn(self, counted: Counted) -> None:
        """Take over what a provider counted for a whole prompt."""
        if counted.estimated > 0 and counted.actual > 0:
            self._ratio = counted.actual / counted.estimated

    def scaled(self, request: CacheRequest, known: Counted | None) -> CacheRequest:
        """Return the request with corrected lengths.

        `known` is the counted prompt that this one extends, if there is one: its blocks have
        exactly the counted tokens together.
        """
        blocks = list(request.blocks)
        sizes = [block.n_tokens for block in blocks]
        n_known = 0 if known is None else min(known.n_blocks, len(sizes))
        front = sizes[:n_known]
        total = known.actual if known is not None else 0
        lengths = _spread(front, total) + _spread(
            sizes[n_known:], round(sum(sizes[n_known:]) * self._ratio)
        )
        if lengths == sizes:
            return request
        pairs = zip(blocks, lengths, strict=True)
        return request.with_blocks([replace(block, n_tokens=n) for block, n in pairs])


def _spread(sizes: Sequence[int], total: int) -> list[int]:
    """Return lengths in the proportions of `sizes` that add up to `total`."""
    everything = sum(sizes)
    if not everything or everything == total:
        return list(sizes)
    lengths, before, so_far = [], 0, 0
    for size in sizes:
        so_far += size
        end = so_far * total // everything
        lengths.append(end - before)
        before = end
    return lengths
