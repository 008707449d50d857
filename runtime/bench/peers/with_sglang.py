"""SGLang's prefix trees under the load of `tree_load`. Runs with an interpreter that has SGLang."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from array import array
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.tree_load import Load, measure

CORES = ("radix", "python", "rust")


class SglangTree:
    """`RadixCache` ("radix"), or `UnifiedRadixCache` with its Python or Rust core; page size 1."""

    def __init__(self, n_slots: int, *, core: str, events: bool) -> None:
        self._torch: Any = importlib.import_module("torch")
        base: Any = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        radix: Any = importlib.import_module("sglang.srt.mem_cache.radix_cache")
        init: Any = importlib.import_module("sglang.srt.mem_cache.cache_init_params")
        allocators: Any = importlib.import_module("sglang.srt.mem_cache.allocator")
        self._base, self._key = base, radix.RadixKey
        self._pool = allocators.TokenToKVPoolAllocator(
            n_slots, self._torch.int64, "cpu", None, False
        )
        params = init.CacheInitParams(
            disable=False,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=self._pool,
            page_size=1,
            enable_kv_cache_events=events,
        )
        if core == "radix":
            self._cache = radix.RadixCache(params)
            return
        unified: Any = importlib.import_module("sglang.srt.mem_cache.unified_radix_cache")
        kinds: Any = importlib.import_module("sglang.srt.mem_cache.unified_cache.component_type")
        params.tree_components = (kinds.ComponentType.FULL,)
        params.tree_core_backend = core
        self._cache = unified.UnifiedRadixCache(params)
        name = type(self._cache.tree_core).__name__
        if ("Rust" in name) != (core == "rust"):
            raise RuntimeError(f"asked for the {core} core of SGLang, got {name}")

    def key(self, tokens: array[int]) -> Any:
        """See `Tree.key`."""
        return array("q", tokens)

    def match(self, key: Any) -> Any:
        """See `Tree.match`."""
        found = self._cache.match_prefix(self._base.MatchPrefixParams(key=self._key(key)))
        lock = self._cache.lock(found.last_device_node)
        slots = self._cache.path_device_indices(found.last_device_node)
        return found.device_prefix_len, lock, slots

    def length(self, handle: Any) -> int:
        """See `Tree.length`."""
        return int(handle[0])

    def shortage(self, n_tokens: int) -> int:
        """See `Tree.shortage`."""
        return int(n_tokens - self._pool.available_size())

    def evict(self, n_tokens: int) -> None:
        """See `Tree.evict`."""
        self._cache.evict(self._base.EvictParams(num_tokens=n_tokens))

    def slots(self, handle: Any, n_tokens: int) -> Any:
        """See `Tree.slots`."""
        n_new = n_tokens - handle[0]
        new = self._pool.alloc(n_new) if n_new else self._torch.empty(0, dtype=self._torch.int64)
        return self._torch.cat([handle[2], new])

    def insert(self, handle: Any, key: Any, slots: Any) -> None:
        """See `Tree.insert`."""
        # What was matched is not the caller's to give away a second time.
        params = self._base.InsertParams(
            key=self._key(key), value=slots, prev_prefix_len=handle[0], inserted_len=handle[0]
        )
        self._cache.insert(params)
        self._cache.unlock(handle[1])


def main() -> None:
    """Run the load once and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", choices=CORES, required=True)
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--events", action="store_true")
    args = parser.parse_args()
    importlib.import_module("torch").set_num_threads(1)
    load = Load(agents=args.agents, turns=args.turns)
    timed = measure(lambda n: SglangTree(n, core=args.core, events=args.events), load)
    sys.stdout.write(json.dumps(timed.as_dict()) + "\n")


if __name__ == "__main__":
    main()
