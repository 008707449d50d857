"""The end of a cache: what it holds goes where it outlives the process. No torch."""

from __future__ import annotations

import time
from collections.abc import Callable

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS

CLOSE_S = 10.0
"""Longest time that closing a cache takes, and one more write."""


def close_cache(
    cache: KvCache, *, within_s: float = CLOSE_S, clock: Callable[[], float] = time.monotonic
) -> None:
    """Evict everything into a tier that keeps it, as far as time allows, and end the tiers.

    Without such a tier nothing is evicted. Pins end; published prefixes stay where they are.
    Idempotent. Never raises for what a tier cannot keep.
    """
    if cache.tiers is None:
        return
    end = clock() + within_s
    # Each time the tier is waited for, so that host memory has room for what comes next.
    while (n_blocks := cache.tiers.flush()) and clock() < end:
        for pin in cache.pins():
            cache.unpin(pin.handle)
        if not cache.evict(n_blocks * BLOCK_TOKENS):
            break
    cache.tiers.close()
