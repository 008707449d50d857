"""Fixtures of the KV tests: small pools, and sequences that compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pytest

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree

Slots = Callable[[Lease], list[int]]


class Run(Protocol):
    def __call__(self, cache: KvCache, tokens: Sequence[int], namespace: bytes = b"n") -> Lease: ...


@pytest.fixture
def slots() -> Slots:
    """The slot of each position of a lease."""

    def expand(lease: Lease) -> list[int]:
        return [slot for run in lease.extents for slot in range(run.start, run.end)]

    return expand


@pytest.fixture
def run() -> Run:
    """Acquire, grow and commit a whole sequence; the lease stays open."""

    def start(cache: KvCache, tokens: Sequence[int], namespace: bytes = b"n") -> Lease:
        lease = cache.acquire(namespace, pack(tokens), max_match=len(tokens) - 1)
        cache.grow(lease, len(tokens))
        cache.commit(lease, pack(tokens))
        return lease

    return start


@pytest.fixture
def cache() -> KvCache:
    """32 slots, evicted one by one."""
    return KvCache(SlotAllocator(32), RadixTree(), eviction_step=1)
