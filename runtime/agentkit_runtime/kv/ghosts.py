"""What was cached lately, also when it is not there any more: the ghost list of caching papers.

It tells a prompt that was evicted too early from one that is new, and so measures thrashing: how
many tokens are computed that had been computed a few minutes ago. It holds hashes and times, never
tokens, and knows blocks of `GHOST_TOKENS` from a prompt's beginning on; a hash stands for all that
comes before it, too.

Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, calls lists of
what has left a cache by this name; here nothing is decided by it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from agentkit_runtime.kv.tokens import TOKEN_BYTES, count

GHOST_TOKENS = 32
"""Tokens of a block. Smaller ones cost more time: about 0.3 us a block at each end of a request."""

KEPT_S = 600.0
"""Seconds after its last use at which a ghost is forgotten: what comes back later was idle."""

MAX_GHOSTS = 131_072
"""Most blocks that are remembered, 4 million tokens: about 20 MB."""


class Ghosts:
    """Prefixes that were cached in the last `kept_s` seconds. For one thread."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        kept_s: float = KEPT_S,
        max_blocks: int = MAX_GHOSTS,
    ) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._max_blocks = max_blocks
        self._used_s: OrderedDict[int, float] = OrderedDict()
        """When each block was used last, that one last."""

    def __len__(self) -> int:
        return len(self._used_s)

    def note(self, root: bytes, tokens: bytes) -> None:
        """Remember that these tokens are cached now."""
        used, now_s = self._used_s, self._clock()
        for name in _names(root, tokens):
            used[name] = now_s
            used.move_to_end(name)
        while len(used) > self._max_blocks:
            used.popitem(last=False)
        self._forget_old(now_s)

    def lost(self, root: bytes, tokens: bytes, n_cached: int) -> int:
        """How many of `tokens` behind the first `n_cached` were cached lately, without a gap."""
        first = n_cached // GHOST_TOKENS
        if first >= count(tokens) // GHOST_TOKENS:
            return 0
        self._forget_old(self._clock())
        end = n_cached
        for rank, name in enumerate(_names(root, tokens)):
            if rank < first:
                continue
            if name not in self._used_s:
                break
            end = (rank + 1) * GHOST_TOKENS
        return end - n_cached

    def clear(self) -> None:
        """Forget all."""
        self._used_s.clear()

    def _forget_old(self, now_s: float) -> None:
        used = self._used_s
        while used and next(iter(used.values())) < now_s - self._kept_s:
            used.popitem(last=False)


def _names(root: bytes, tokens: bytes) -> Iterator[int]:
    """A hash for each whole block that stands for it and all before it.

    Python's own hash is keyed per process and 64 bits wide: good enough for counting.
    """
    n_bytes = GHOST_TOKENS * TOKEN_BYTES
    name = hash(root)
    for start in range(0, len(tokens) - n_bytes + 1, n_bytes):
        name = hash((name, tokens[start : start + n_bytes]))
        yield name
