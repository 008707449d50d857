from __future__ import annotations

import os
import random

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree

N_OPERATIONS = int(os.environ.get("KV_FUZZ_OPERATIONS", "100000"))
"""A soak sets more."""
CHECK_EVERY = 1_000


def test_a_hundred_thousand_random_operations_leak_no_slot() -> None:
    """R4."""
    rng = random.Random(20)
    allocator, tree = SlotAllocator(300), RadixTree()
    cache = KvCache(allocator, tree, eviction_step=4)
    running: list[tuple[Lease, list[int]]] = []
    refused = 0
    for step in range(N_OPERATIONS):
        refused += one_operation(rng, cache, running)
        if step % CHECK_EVERY == 0:
            cache.check_integrity([lease for lease, _ in running])
    assert refused > 100, "the pool must have been full at times"
    for lease, _ in running:
        cache.release(lease)
    cache.check_integrity([])
    assert cache.available == 300
    cache.clear()
    assert list(allocator.free_runs()) == [Extent(0, 300)]
    assert list(tree.roots()) == []


def one_operation(
    rng: random.Random, cache: KvCache, running: list[tuple[Lease, list[int]]]
) -> bool:
    """Returns whether there were no slots for it."""
    kind = rng.random()
    if kind < 0.30 and len(running) < 12:
        tokens = [rng.randrange(3) for _ in range(rng.randrange(1, 40))]
        namespace = rng.choice([b"one", b"two"])
        lease = cache.acquire(namespace, pack(tokens), max_match=len(tokens) - 1)
        running.append((lease, tokens))
    elif kind < 0.80 and running:
        lease, tokens = rng.choice(running)
        if lease.committed == len(tokens):
            tokens.append(rng.randrange(3))
        end = rng.randrange(lease.committed + 1, len(tokens) + 1)
        try:
            cache.grow(lease, end, reserve=rng.randrange(4))
        except OutOfSlots:
            return True
        if rng.random() < 0.9:
            cache.commit(lease, pack(tokens[:end]))
    elif kind < 0.97 and running:
        lease, _ = running.pop(rng.randrange(len(running)))
        cache.release(lease)
    elif kind < 0.98:
        cache.evict(rng.randrange(30))
    elif kind < 0.981:
        cache.clear(rng.choice([b"one", b"two", None]))
    return False
