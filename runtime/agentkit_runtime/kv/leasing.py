"""Leases: what running sequences hold of the pool, and how it gets into the tree.

    who owns a slot      until
    free list            `grow` gives it to a lease
    one lease, private   `commit` gives it to the tree, or `release` gives it back
    the tree             nobody has it locked and eviction takes it

A sequence's life is acquire, then grow / compute / commit for each chunk, then release.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.blocks import BlockIndex
from agentkit_runtime.kv.extent import append_run, coalesce, drop, split, split_last, take, total
from agentkit_runtime.kv.ghosts import Ghosts
from agentkit_runtime.kv.labels import Labels
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.missed import Missed
from agentkit_runtime.kv.pins import PinQuota, Pins
from agentkit_runtime.kv.public import Prefix, PublicPrefixes
from agentkit_runtime.kv.restore import Restore
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import Tiers
from agentkit_runtime.kv.timers import Timers
from agentkit_runtime.kv.tokens import TOKEN_BYTES, count
from agentkit_runtime.kv.tree import RadixTree

MAX_NAMESPACES = 8_192
"""Namespaces whose tenant is remembered when nothing of them is left in the tree."""


@dataclass(slots=True)
class CacheCounters:
    """Tokens since the start."""

    matched: int = 0
    """Found in the tree when sequences started, again for each that resumed."""
    matched_public: int = 0
    """Of them, those of published prefixes."""
    inserted: int = 0
    duplicated: int = 0
    """Computed twice: the tree had them already when they were committed."""
    evicted: int = 0
    pruned: int = 0
    """Freed by `prune`, `clear` and `unpublish`."""
    restored: int = 0
    """Brought back from slower tiers."""
    lost: int = 0
    """Not found when sequences started or resumed, though they had been cached lately."""


class LeasedSlots:
    """The part of `KvCache` that running sequences use. For one thread."""

    def __init__(
        self,
        allocator: SlotAllocator,
        tree: RadixTree,
        *,
        eviction_step: int | None = None,
        pin_quota: PinQuota | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if eviction_step is None:
            eviction_step = max(1, min(256, allocator.n_slots // 64))
        if eviction_step < 1:
            raise ValueError(f"eviction_step must be at least 1, got {eviction_step!r}")
        self._allocator = allocator
        self._tree = tree
        self._eviction_step = eviction_step
        self._clock = clock
        self._timers = Timers()
        self._labels = Labels(tree, self._timers, clock)
        self._public = PublicPrefixes(tree)
        quota = pin_quota or PinQuota()
        n_slots = allocator.n_slots
        self._pins = Pins(
            tree,
            self._timers,
            clock,
            per_tenant=n_slots // 4 if quota.per_tenant is None else quota.per_tenant,
            total=n_slots // 2 if quota.total is None else quota.total,
            others=lambda: [prefix.node for prefix in self._public],
        )
        self._tenants: OrderedDict[bytes, str] = OrderedDict()
        self._restores: dict[Restore, None] = {}
        self._index: BlockIndex | None = None
        self._tiers: Tiers | None = None
        self._ghosts = Ghosts(clock)
        self.counters = CacheCounters()

    @property
    def n_slots(self) -> int:
        """Slots of the pool. No sequence can be longer."""
        return self._allocator.n_slots

    @property
    def available(self) -> int:
        """Slots that `grow` could hand out now: free ones and evictable ones."""
        return self._allocator.free_slots + self._tree.evictable_tokens

    @property
    def free_slots(self) -> int:
        """Slots on the free list."""
        return self._allocator.free_slots

    @property
    def evictable_slots(self) -> int:
        """Slots of cached tokens that nobody has locked."""
        return self._tree.evictable_tokens

    def peek(
        self,
        namespace: bytes,
        tokens: bytes,
        *,
        max_match: int | None = None,
        scope: Scope = NO_SCOPE,
    ) -> int:
        """How many tokens `acquire` would find cached now. Leaves no trace and promises nothing."""
        wanted = limited(tokens, max_match)
        prefix = self._prefix(namespace, wanted, scope)
        if prefix is None:
            return self._tree.peek(namespace, wanted)
        return max(count(prefix.tokens), self._tree.peek(prefix.overlay(namespace), wanted))

    def acquire(
        self,
        namespace: bytes,
        tokens: bytes,
        *,
        max_match: int | None = None,
        scope: Scope = NO_SCOPE,
    ) -> Lease:
        """Start a sequence: find and lock the longest cached prefix of `tokens`.

        At most `max_match` tokens are taken from the cache; a prompt whose logits are wanted needs
        `len(prompt) - 1`, because its last token must be computed. `scope` may open a published
        prefix, and labels what the sequence leaves behind.
        """
        wanted = limited(tokens, max_match)
        root, n_public = self._enter(namespace, wanted, scope)
        node, length, extents = self._tree.match(root, wanted)
        self._tree.lock(node)
        self._pins.used(node)
        self.counters.matched += length
        self.counters.matched_public += n_public
        return Lease(
            namespace=namespace,
            root=root,
            scope=scope,
            cached=length,
            public=n_public,
            tokens=tokens[: length * TOKEN_BYTES],
            extents=extents,
            capacity=length,
            node=node,
            label=self._labels.begin(scope, node),
        )

    def missed(self, lease: Lease, wanted: bytes) -> Missed:
        """Why a new lease found no more of `wanted`. Counts what had been cached lately.

        To be called once for each sequence that starts, right behind its `acquire`.
        """
        if lease.committed >= count(wanted):
            return Missed("cached", 0)
        lost = self._ghosts.lost(lease.root, wanted, lease.committed)
        self.counters.lost += lost
        if lost:
            return Missed("evicted", lost)
        return Missed("diverged" if lease.node.children else "never seen", 0)

    def grow(self, lease: Lease, n_tokens: int, *, reserve: int = 0) -> None:
        """Give the lease slots for positions up to `n_tokens`; evicts when the pool is full.

        Up to `reserve` more slots are taken when they are free and follow directly, which keeps a
        growing sequence in one piece. Raises OutOfSlots and changes nothing when there are not
        enough.
        """
        lease.require_active()
        missing = n_tokens - lease.capacity
        if missing <= 0:
            return
        self._make_room(missing)
        last = lease.extents[-1:]
        follows = [self._allocator.alloc_at_end_of(run, missing + reserve) for run in last]
        rest = missing - total(follows)
        if rest > 0:
            follows += self._allocator.alloc(rest, reserve=reserve)
        lease.extents = coalesce(lease.extents, follows)
        lease.capacity += total(follows)

    def shrink(self, lease: Lease, n_tokens: int) -> None:
        """Give back the slots behind position `n_tokens`, except those of committed tokens."""
        lease.require_active()
        kept = max(n_tokens, lease.committed)
        if kept < lease.capacity:
            surplus = drop(lease.extents, kept)
            lease.extents = take(lease.extents, kept)
            lease.capacity = kept
            self._allocator.free(surplus)

    def commit(self, lease: Lease, tokens: bytes) -> None:
        """Share the KV of the sequence's first tokens; all of them must be computed.

        `tokens` starts with what was committed before. Where the tree got the same tokens from
        another sequence meanwhile, the lease goes over to those slots and its own are freed: read
        `lease.extents` again afterwards. Raises ValueError when `tokens` contradicts earlier
        commits or exceeds the capacity. A sequence whose prefix was pruned keeps its slots to
        itself: nothing is shared then, and `lease.committed` stays as it was.
        """
        lease.require_active()
        n_tokens = count(tokens)
        if not tokens.startswith(lease.tokens):
            raise ValueError(
                f"commit of {n_tokens!r} tokens does not start with the {lease.committed!r} "
                "committed before; pass all tokens of the sequence from position 0"
            )
        if n_tokens > lease.capacity:
            raise ValueError(
                f"commit of {n_tokens!r} tokens, but the lease has slots for {lease.capacity!r}"
            )
        if n_tokens == lease.committed:
            return
        if lease.node.condemned:
            return  # pruned meanwhile: what hangs on it is not shared any more
        committed = lease.committed
        shared, private = split_last(lease.extents, lease.capacity - committed)
        own, behind = split(private, n_tokens - committed)
        node, extents, duplicates = self._tree.extend(lease.node, tokens, own, owner=lease.label)
        if node is not lease.node:
            if lease.label is not None:
                self._labels.move(lease.label, lease.node, node)
            self._tree.move_lock(lease.node, node)
            lease.node = node
        lease.tokens = tokens
        # The lease must have left its duplicates before anyone else can be given them.
        for run in (*extents, *behind):
            append_run(shared, run)
        lease.extents = shared
        self.counters.inserted += n_tokens - committed
        if duplicates:
            n_duplicates = total(duplicates)
            self.counters.duplicated += n_duplicates
            self.counters.inserted -= n_duplicates
            self._allocator.free(duplicates)

    def release(self, lease: Lease) -> None:
        """End a sequence, finished or not: frees what was private, unlocks what is shared.

        Releasing again does nothing.
        """
        if lease.released:
            return
        lease.released = True
        if lease.committed > lease.cached:
            self._ghosts.note(lease.root, lease.tokens)
        _, private = split_last(lease.extents, lease.capacity - lease.committed)
        lease.extents = []
        lease.capacity = 0
        self._tree.unlock(lease.node)
        self._tree.join(lease.node)
        if private:
            self._allocator.free(private)
        self._free_released()

    def evict(self, n_tokens: int) -> int:
        """Forget up to `n_tokens` unlocked tokens in the order of the policy; returns how many.

        Slower tiers, if there are any, get the blocks that this takes apart.
        """
        self._timers.run(self._clock())
        freed = self._tree.evict(n_tokens)
        if self._tiers is not None and self._index is not None:
            blocks = self._index.take_evicted()
            if blocks:
                self._tiers.save(blocks)
        self._allocator.free(freed)
        n_freed = total(freed)
        self.counters.evicted += n_freed
        return n_freed

    def _prefix(self, namespace: bytes, tokens: bytes, scope: Scope) -> Prefix | None:
        """The published prefix that a request goes on from, if any."""
        if scope.public is None or scope.public == namespace:
            return None
        return self._public.find(scope.public, tokens)

    def _enter(self, namespace: bytes, tokens: bytes, scope: Scope) -> tuple[bytes, int]:
        """The name of the root to use, which is made if need be, and its public tokens."""
        prefix = self._prefix(namespace, tokens, scope)
        if prefix is None:
            name, n_public = namespace, 0
            root = self._tree.own_root(namespace)
        else:
            name, n_public = prefix.overlay(namespace), count(prefix.tokens)
            root = self._tree.overlay(name, prefix.node, namespace)
        if scope.tenant and root.tenant != scope.tenant:
            root.tenant = root.tenant or scope.tenant
            self._tenants[namespace] = root.tenant
            self._tenants.move_to_end(namespace)
            if len(self._tenants) > MAX_NAMESPACES:
                self._tenants.popitem(last=False)
        return name, n_public

    def _free_released(self) -> None:
        released = self._tree.take_released()
        if released:
            self._allocator.free(released)
            self.counters.pruned += total(released)

    def _make_room(self, n_slots: int) -> None:
        if n_slots > self.available:
            raise OutOfSlots(
                f"{n_slots} slots wanted, but of {self.n_slots} only "
                f"{self._allocator.free_slots} are free and {self._tree.evictable_tokens} "
                "evictable; release a sequence or make the pool larger"
            )
        shortage = n_slots - self._allocator.free_slots
        if shortage > 0:
            self.evict(max(shortage, self._eviction_step))


def limited(tokens: bytes, max_match: int | None) -> bytes:
    """The tokens that may be taken from the cache. Raises ValueError for a negative limit."""
    if max_match is None:
        return tokens
    if max_match < 0:
        raise ValueError(f"max_match must not be negative, got {max_match!r}")
    return tokens[: max_match * TOKEN_BYTES]
