"""Our tree under the load of `tree_load`, with events and counts: a process of its own."""

from __future__ import annotations

import argparse
import json
import sys
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.events import EventLog
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tree import RadixTree
from bench.tree_load import Load, measure


class OurTree:
    """`KvCache`: tree, free list, counters and, if wanted, events."""

    def __init__(self, n_slots: int, *, events: bool) -> None:
        self._cache = KvCache(SlotAllocator(n_slots), RadixTree(), eviction_step=1)
        if events:
            self._cache.record_events(EventLog())

    def key(self, tokens: array[int]) -> bytes:
        """See `Tree.key`."""
        return tokens.tobytes()

    def match(self, key: bytes) -> Lease:
        """See `Tree.match`."""
        return self._cache.acquire(b"bench", key)

    def length(self, handle: Lease) -> int:
        """See `Tree.length`."""
        return handle.cached

    def shortage(self, n_tokens: int) -> int:
        """See `Tree.shortage`."""
        return n_tokens - self._cache.free_slots

    def evict(self, n_tokens: int) -> None:
        """See `Tree.evict`."""
        self._cache.evict(n_tokens)

    def slots(self, handle: Lease, n_tokens: int) -> None:
        """See `Tree.slots`."""
        self._cache.grow(handle, n_tokens)

    def insert(self, handle: Lease, key: bytes, slots: None) -> None:
        """See `Tree.insert`."""
        self._cache.commit(handle, key)
        self._cache.release(handle)


def main() -> None:
    """Run the load once and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--no-events", action="store_true")
    args = parser.parse_args()
    load = Load(agents=args.agents, turns=args.turns)
    timed = measure(lambda n: OurTree(n, events=not args.no_events), load)
    sys.stdout.write(json.dumps(timed.as_dict()) + "\n")


if __name__ == "__main__":
    main()
