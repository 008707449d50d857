"""KV cache: the only module that touches both the tree and the free list.

    who owns a slot      until
    free list            `grow` gives it to a lease
    one lease, private   `commit` gives it to the tree, or `release` gives it back
    the tree             nobody has it locked and eviction takes it

A sequence's life is acquire, then grow / compute / commit for each chunk, then release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.extent import coalesce, drop, take, total
from agentkit_runtime.kv.integrity import check_cache
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import TOKEN_BYTES, count
from agentkit_runtime.kv.tree import RadixTree

__all__ = ["KvCache", "Lease"]


class KvCache:
    """All KV slots of one model: shared prefixes in the tree, the rest in leases. For one thread.

    `eviction_step` is how many slots are freed at a time when the pool is full (if that many can
    be); single slots would scatter the sequences that get them. By default a 64th of the pool,
    between 1 and 256.
    """

    def __init__(
        self, allocator: SlotAllocator, tree: RadixTree, *, eviction_step: int | None = None
    ) -> None:
        if eviction_step is None:
            eviction_step = max(1, min(256, allocator.n_slots // 64))
        if eviction_step < 1:
            raise ValueError(f"eviction_step must be at least 1, got {eviction_step!r}")
        self._allocator = allocator
        self._tree = tree
        self._eviction_step = eviction_step

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

    def peek(self, namespace: bytes, tokens: bytes, *, max_match: int | None = None) -> int:
        """How many tokens `acquire` would find cached now. Leaves no trace and promises nothing."""
        return self._tree.peek(namespace, _limited(tokens, max_match))

    def acquire(self, namespace: bytes, tokens: bytes, *, max_match: int | None = None) -> Lease:
        """Start a sequence: find and lock the longest cached prefix of `tokens`.

        At most `max_match` tokens are taken from the cache; a prompt whose logits are wanted needs
        `len(prompt) - 1`, because its last token must be computed.
        """
        known = self._tree.match(namespace, _limited(tokens, max_match))
        self._tree.lock(known.node)
        return Lease(
            namespace=namespace,
            cached=known.length,
            tokens=tokens[: known.length * TOKEN_BYTES],
            extents=known.extents,
            capacity=known.length,
            node=known.node,
        )

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
        commits or exceeds the capacity.
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
        own, behind = take(lease.extents, n_tokens), drop(lease.extents, n_tokens)
        done = self._tree.insert(lease.namespace, tokens, own, holder=lease.node)
        if done.node is not lease.node:
            self._tree.lock(done.node)
            self._tree.unlock(lease.node)
            lease.node = done.node
        lease.tokens = tokens
        # The lease must have left its duplicates before anyone else can be given them.
        lease.extents = coalesce(done.extents, behind)
        self._allocator.free(done.duplicates)

    def release(self, lease: Lease) -> None:
        """End a sequence, finished or not: frees what was private, unlocks what is shared.

        Releasing again does nothing.
        """
        if lease.released:
            return
        lease.released = True
        private = drop(lease.extents, lease.committed)
        lease.extents = []
        lease.capacity = 0
        self._tree.unlock(lease.node)
        self._allocator.free(private)

    def evict(self, n_tokens: int) -> int:
        """Forget up to `n_tokens` unlocked tokens, least recently used first; returns how many."""
        freed = self._tree.evict(n_tokens)
        self._allocator.free(freed)
        return total(freed)

    def clear(self, namespace: bytes | None = None) -> int:
        """Forget every unlocked token of one namespace, or of all; returns how many."""
        freed = self._tree.clear(namespace)
        self._allocator.free(freed)
        return total(freed)

    def check_integrity(self, leases: Iterable[Lease]) -> None:
        """Check every invariant of tree, free list and `leases`, which must be all active ones.

        Takes time proportional to the tree. Raises IntegrityError and names what is wrong.
        """
        check_cache(self._allocator, self._tree, _active(leases))

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


def _limited(tokens: bytes, max_match: int | None) -> bytes:
    if max_match is None:
        return tokens
    if max_match < 0:
        raise ValueError(f"max_match must not be negative, got {max_match!r}")
    return tokens[: max_match * TOKEN_BYTES]


def _active(leases: Iterable[Lease]) -> Sequence[Lease]:
    return [lease for lease in leases if not lease.released]
