"""Blocks: events about them, and slower tiers where evicted ones go and come back from."""

from __future__ import annotations

from agentkit_runtime.kv.blocks import BlockIndex
from agentkit_runtime.kv.events import EventLog
from agentkit_runtime.kv.extent import coalesce, take
from agentkit_runtime.kv.leasing import LeasedSlots, limited
from agentkit_runtime.kv.restore import Restorable, Restore, names_behind, names_from_start
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, TierChange, Tiers
from agentkit_runtime.kv.tokens import TOKEN_BYTES, count


class RestoringSlots(LeasedSlots):
    """The part of `KvCache` that knows blocks. For one thread."""

    def record_events(self, log: EventLog) -> None:
        """Report blocks that come and go to `log`. Raises ValueError when tokens are there."""
        self._block_index().log = log

    @property
    def events(self) -> EventLog | None:
        """What `record_events` was given."""
        return None if self._index is None else self._index.log

    def attach_tiers(self, tiers: Tiers) -> None:
        """Give evicted blocks to `tiers`. Raises ValueError when tokens are there already."""
        self._block_index().collecting = True
        self._tiers = tiers
        tiers.listen(self._tier_changed)

    @property
    def tiers(self) -> Tiers | None:
        """The slower tiers, if any are attached."""
        return self._tiers

    def restorable(
        self,
        namespace: bytes,
        tokens: bytes,
        *,
        max_match: int | None = None,
        scope: Scope = NO_SCOPE,
    ) -> Restorable | None:
        """What slower tiers would add to the cached part of `tokens`; None when it does not pay.

        Leaves no trace and promises nothing. Hashes what is not cached: ask once for a request.
        """
        if self._tiers is None:
            return None
        wanted = limited(tokens, max_match)
        prefix = self._prefix(namespace, wanted, scope)
        name = namespace if prefix is None else prefix.overlay(namespace)
        root = self._tree.root(name)
        if root is None:
            cached = 0 if prefix is None else count(prefix.tokens)
            first, names = names_from_start(namespace, wanted, cached)
        else:
            cached, first, names = names_behind(root, wanted)
        n_blocks = self._tiers.held(names, cached_tokens=cached) if names else 0
        gained = (first + n_blocks) * BLOCK_TOKENS - cached
        if gained <= 0:
            return None
        return Restorable(
            namespace=namespace,
            scope=scope,
            tokens=wanted[: (cached + gained) * TOKEN_BYTES],
            cached=cached,
            gained=gained,
            first_block=first,
            names=tuple(names[:n_blocks]),
        )

    def begin_restore(self, wanted: Restorable) -> Restore:
        """Start to fetch; ends with `finish_restore` or `cancel_restore`."""
        assert self._tiers is not None, "only attached tiers make something restorable"
        name, _ = self._enter(wanted.namespace, wanted.tokens, wanted.scope)
        n_before = wanted.first_block * BLOCK_TOKENS * TOKEN_BYTES
        known = self._tree.match(name, wanted.tokens[:n_before])
        self._tree.lock(known.node)
        restore = Restore(wanted, self._tiers.fetch(wanted.names), name, known.node)
        self._restores[restore] = None
        return restore

    def finish_restore(self, restore: Restore) -> int:
        """Put what has arrived into the tree, unlocked; returns how many tokens that adds.

        Does not wait. Takes fewer blocks when slots are short. Ends the restore, also when it
        raises what loading raised; then nothing was added.
        """
        if restore.closed:
            return 0
        try:
            return self._load(restore)
        finally:
            self.cancel_restore(restore)

    def cancel_restore(self, restore: Restore) -> None:
        """End a restore without its blocks. Idempotent."""
        if not restore.closed:
            restore.closed = True
            del self._restores[restore]
            restore.fetch.close()
            self._tree.unlock(restore.node)
            self._free_released()

    def _load(self, restore: Restore) -> int:
        wanted = restore.wanted
        n_blocks = min(restore.fetch.n_blocks, self.available // BLOCK_TOKENS)
        first = wanted.first_block * BLOCK_TOKENS
        end = first + n_blocks * BLOCK_TOKENS
        if restore.node.condemned or restore.node.end < first or n_blocks == 0:
            return 0
        self._make_room(end - first)
        slots = self._allocator.alloc(end - first)
        try:
            restore.fetch.load(slots)
        except BaseException:
            self._allocator.free(slots)
            raise
        tokens = wanted.tokens[: end * TOKEN_BYTES]
        before = self._tree.total_tokens
        known = take(coalesce(node.extent for node in restore.node.path()), first)
        done = self._tree.insert(restore.root, tokens, coalesce(known, slots))
        self._allocator.free(done.duplicates)
        gained = self._tree.total_tokens - before
        self.counters.restored += gained
        return gained

    def _block_index(self) -> BlockIndex:
        if self._index is None:
            index = BlockIndex()
            self._tree.watch(index)
            self._index = index
        return self._index

    def _tier_changed(self, change: TierChange) -> None:
        if self.events is not None:
            self.events.tier_changed(change)
