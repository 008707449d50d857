"""From slots to host memory, and into the queue for the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from agentkit_runtime.kv.extent import Extent, coalesce
from agentkit_runtime.kv.tiers.arena import HostArena
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Block, Medium
from agentkit_runtime.kv.tiers.changes import Changes
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.host import HostBlock, HostIndex
from agentkit_runtime.kv.tiers.rows import RowStore
from agentkit_runtime.kv.tiers.stats import Counters
from agentkit_runtime.kv.tiers.worth import Worth
from agentkit_runtime.kv.tiers.write_behind import WriteBehind

_log = logging.getLogger(__name__)

EXPORT_BYTES = 64 << 20
"""Most bytes on their way from slots to host memory: they exist twice for a moment."""


class Saver:
    """Copies blocks that are about to leave the device. For the engine's thread."""

    def __init__(
        self,
        *,
        storage: RowStore,
        host: HostIndex,
        arena: HostArena,
        disk: DiskStore | None,
        writes: WriteBehind | None,
        worth: Worth,
        counters: Counters,
        changes: Changes,
        now: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._host = host
        self._arena = arena
        self._disk = disk
        self._writes = writes
        self._worth = worth
        self._counters = counters
        self._changes = changes
        self._now = now
        self._per_copy = max(1, EXPORT_BYTES // (BLOCK_TOKENS * storage.bytes_per_token))

    def save(self, blocks: Sequence[Block]) -> None:
        """Copy the blocks that are worth it and not there yet."""
        ordered = sorted(blocks, key=lambda block: block.index)
        for begin in range(0, len(ordered), self._per_copy):
            self._save(ordered[begin : begin + self._per_copy])
        # The first block of a sequence is worth most: without it the others are out of reach.
        self._host.touch(block.name for block in reversed(ordered))

    def _save(self, blocks: Sequence[Block]) -> None:
        fresh: list[tuple[Block, HostBlock]] = []
        present: list[tuple[Block, HostBlock]] = []
        for block in blocks:
            if (here := self._host.use(block.name)) is not None:
                present.append((block, here))
            elif not self._worth.saving(Medium.HOST, index=block.index):
                self._counters.skipped_cheap += 1
            elif (new := self._place(block)) is not None:
                fresh.append((block, new))
        try:
            self._copy(fresh)
            for block, here in present + fresh:
                if here.listed:
                    self._queue_write(block, here)
        finally:
            for _, here in present + fresh:
                self._host.release(here)

    def _place(self, block: Block) -> HostBlock | None:
        new, gone = self._host.insert(block.name, block.namespace)
        if gone is not None:
            self._changes.add(Medium.HOST, False, (gone,))
        if new is None:
            self._counters.skipped_busy += 1
        return new

    def _copy(self, fresh: Sequence[tuple[Block, HostBlock]]) -> None:
        """Copy blocks out of their slots; those that failed are not listed afterwards."""
        if not fresh:
            return
        try:
            extents: list[Extent] = coalesce(*(block.extents for block, _ in fresh))
            self._arena.put([new.place for _, new in fresh], self._storage.export(extents))
        except Exception:
            for block, _ in fresh:
                self._host.drop(block.name)
            self._counters.failures += len(fresh)
            _log.exception("copying KV to host memory failed")
            return
        self._counters.saved += len(fresh)
        self._changes.add(Medium.HOST, True, [block.name for block, _ in fresh])

    def _queue_write(self, block: Block, here: HostBlock) -> None:
        if self._disk is None or self._writes is None:
            return
        used_s = self._now() - block.index * 1e-6  # of equals, the last block is the oldest
        if block.name in self._disk:
            self._disk.touch(block.name, used_s)
        elif block.name in self._writes:
            return
        elif not self._worth.saving(Medium.DISK, index=block.index):
            self._counters.skipped_cheap += 1
        elif not self._writes.add(here, used_s):
            self._counters.skipped_busy += 1
