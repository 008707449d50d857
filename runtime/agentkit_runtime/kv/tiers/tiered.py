"""Host memory with disk behind it.

    engine's thread   save: copies to host memory, queues the write to disk
                      fetch: lists blocks; load: copies them into slots
    one writer        host memory to disk, oldest request first
    two readers       disk to memory of the fetch that wants it

The engine's thread never waits for a disk. What a thread does for a namespace that is forgotten
meanwhile is undone before anyone can see it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.tiers.arena import HostArena
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Block, Medium, TierChange
from agentkit_runtime.kv.tiers.changes import Changes
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.disk_file import namespace_tag
from agentkit_runtime.kv.tiers.fetch import FetchPlan, TierFetch
from agentkit_runtime.kv.tiers.host import HostBlock, HostIndex
from agentkit_runtime.kv.tiers.rows import RowStore
from agentkit_runtime.kv.tiers.saving import Saver
from agentkit_runtime.kv.tiers.stats import Counters, TierStats
from agentkit_runtime.kv.tiers.worth import Worth
from agentkit_runtime.kv.tiers.write_behind import WriteBehind

_log = logging.getLogger(__name__)

QUEUE_BYTES = 1 << 30
"""Most bytes of host memory that wait for the writer. They cannot be evicted until then."""


class HostAndDiskTiers:
    """`base.Tiers`. `open_tiers` makes one; tests hand in executors of their own."""

    def __init__(
        self,
        storage: RowStore,
        *,
        host_bytes: int,
        worth: Worth,
        disk: DiskStore | None = None,
        writer: Executor | None = None,
        readers: Executor | None = None,
        n_readers: int = 2,
        timer: Callable[[], float] = time.perf_counter,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Take `host_bytes` of host memory.

        Raises ValueError when not one block fits, and RuntimeFault when there is not so much.
        """
        self._storage = storage
        self._block_bytes = BLOCK_TOKENS * storage.bytes_per_token
        if host_bytes < self._block_bytes:
            raise ValueError(
                f"host memory of {host_bytes} bytes does not hold one block of {BLOCK_TOKENS} "
                f"tokens, which has {self._block_bytes}"
            )
        self._host = HostIndex(host_bytes // self._block_bytes)
        try:
            self._arena = HostArena(self._host.n_blocks, storage.bytes_per_token, storage.device)
        except (RuntimeError, MemoryError) as error:
            raise RuntimeFault(
                f"{host_bytes / 1e9:,.1f} GB of host memory for KV cannot be had: take less "
                "(host_cache_bytes)"
            ) from error
        self._disk = disk
        self._worth = worth
        self._readers = readers or ThreadPoolExecutor(n_readers, thread_name_prefix="kv-read")
        self._n_readers = n_readers
        self._timer = timer
        self._fetches: set[TierFetch] = set()
        self._n_fetching = 0
        """Blocks from disk that open fetches hold memory for."""
        self._counters = Counters()
        self._changes = Changes()
        self._closed = False
        self._writes: WriteBehind | None = None
        if disk is not None:
            disk.on_change = self._disk_changed
            self._writes = WriteBehind(
                self._host,
                self._arena,
                disk,
                writer or ThreadPoolExecutor(1, thread_name_prefix="kv-write"),
                bound=max(1, min(self._host.n_blocks // 2, QUEUE_BYTES // self._block_bytes)),
            )
        self._saver = Saver(
            storage=storage,
            host=self._host,
            arena=self._arena,
            disk=disk,
            writes=self._writes,
            worth=worth,
            counters=self._counters,
            changes=self._changes,
            now=now,
        )

    def save(self, blocks: Sequence[Block]) -> None:
        """See `Tiers.save`."""
        if self._closed:
            return
        try:
            self._saver.save(blocks)
        except Exception:  # a lost block is no reason to fail whoever needs the slots
            _log.exception("saving KV blocks failed")
        self._changes.tell()

    def held(self, names: Sequence[bytes], *, cached_tokens: int = 0) -> int:
        """See `Tiers.held`."""
        self._changes.tell()
        if self._closed or not names:
            return 0
        media = self._media(names)
        if not media:
            self._counters.misses += 1
            return 0
        n = self._worth.fetching(media, cached_tokens=cached_tokens)
        self._counters.declined += not n
        return n

    def fetch(self, names: Sequence[bytes]) -> TierFetch:
        """See `Tiers.fetch`."""
        self._changes.tell()
        fetch = self._open(names)
        n_disk = len(fetch.plan.disk_names)
        self._fetches.add(fetch)
        self._n_fetching += n_disk
        self._counters.hits_host += len(fetch.plan.sources) - n_disk
        for _ in range(min(self._n_readers, n_disk)):
            self._readers.submit(fetch.read)
        # The last one first: the sequence's first block is to stay longest.
        self._host.touch(reversed(names))
        return fetch

    def forget(self, namespace: bytes | None = None) -> int:
        """See `Tiers.forget`. What is on disk is out of reach at once, also after a restart."""
        tag = None if namespace is None else namespace_tag(namespace)
        if self._writes is not None:
            self._writes.cancel(namespace)
        for fetch in self._fetches:
            if tag is None or fetch.plan.tag == tag:
                fetch.cancel()
        names = self._host.forget(namespace)
        self._changes.add(Medium.HOST, False, names)
        gone = set(names)
        if self._disk is not None and self._writes is not None and not self._closed:
            gone.update(self._disk.forget(tag))
            self._writes.sweep()
        self._changes.tell()
        return len(gone)

    def forget_blocks(self, names: Sequence[bytes]) -> int:
        """See `Tiers.forget_blocks`. Their files are gone when this returns."""
        wanted = set(names)
        if self._writes is not None:
            self._writes.cancel_blocks(wanted)
        for fetch in self._fetches:
            if not wanted.isdisjoint(fetch.plan.names):
                fetch.cancel()
        here = [name for name in wanted if self._host.drop(name)]
        self._changes.add(Medium.HOST, False, here)
        gone = set(here)
        if self._disk is not None and not self._closed:
            gone.update(self._disk.forget_blocks(wanted))
        self._changes.tell()
        return len(gone)

    def note_prefill(self, n_tokens: int, seconds: float, *, context: int = 0) -> None:
        """See `Tiers.note_prefill`."""
        self._worth.note_prefill(n_tokens, seconds, context)
        self._changes.tell()

    def listen(self, listener: Callable[[TierChange], None] | None) -> None:
        """See `Tiers.listen`. A new listener is told first what is there already."""
        self._changes.listen(listener)
        self._changes.add(Medium.HOST, True, self._host.names())
        if self._disk is not None:
            self._changes.add(Medium.DISK, True, self._disk.names())
        self._changes.tell()

    def stats(self) -> TierStats:
        """See `Tiers.stats`."""
        counters, disk = self._counters, self._disk
        return TierStats(
            host_blocks=len(self._host),
            host_bytes=len(self._host) * self._block_bytes,
            host_max_bytes=self._host.n_blocks * self._block_bytes,
            disk_blocks=len(disk) if disk is not None else 0,
            disk_bytes=disk.n_bytes if disk is not None else 0,
            disk_max_bytes=disk.max_bytes if disk is not None else 0,
            saved=counters.saved,
            written=disk.written if disk is not None else 0,
            written_bytes=disk.written_bytes if disk is not None else 0,
            hits_host=counters.hits_host,
            hits_disk=disk.reads if disk is not None else 0,
            misses=counters.misses,
            declined=counters.declined,
            skipped_cheap=counters.skipped_cheap,
            skipped_busy=counters.skipped_busy,
            failures=counters.failures + (disk.failures if disk is not None else 0),
            restored_tokens=counters.restored_tokens,
        )

    def flush(self) -> int:
        """See `Tiers.flush`."""
        if self._writes is None or self._closed:
            return 0
        self._writes.flush()
        self._changes.tell()
        return self._writes.bound

    def close(self) -> None:
        """See `Tiers.close`."""
        if self._closed:
            return
        self._closed = True
        for fetch in list(self._fetches):
            fetch.cancel()
        self._readers.shutdown(wait=True, cancel_futures=True)
        if self._writes is not None:
            self._writes.close()
        if self._disk is not None:
            self._disk.close()
        self._changes.tell()

    # -- fetch ---------------------------------------------------------------------------------

    def _media(self, names: Sequence[bytes]) -> list[Medium]:
        """Where the leading blocks are that could be fetched now."""
        media: list[Medium] = []
        room = self._host.n_blocks - self._n_fetching
        for name in names:
            if name in self._host:
                media.append(Medium.HOST)
            elif self._disk is not None and room > 0 and name in self._disk:
                room -= 1
                media.append(Medium.DISK)
            else:
                break
        return media

    def _plan(self, names: Sequence[bytes]) -> FetchPlan:
        plan = FetchPlan(tag=b"")
        room = self._host.n_blocks - self._n_fetching
        for name in names:
            block = self._host.use(name)
            if block is not None:
                plan.tag = plan.tag or namespace_tag(block.namespace)
                plan.sources.append(block)
                continue
            tag = self._disk.tag_of(name) if self._disk is not None else None
            if tag is None or room < 1:
                break
            room -= 1
            plan.tag = tag
            plan.sources.append(name)
        return plan

    def _open(self, names: Sequence[bytes]) -> TierFetch:
        """Make a fetch of what is there; of nothing when there is no memory for it."""
        plan = FetchPlan(tag=b"") if self._closed else self._plan(names)
        try:
            return self._fetch_of(plan)
        except (MemoryError, RuntimeError):
            _log.exception("no memory to fetch KV blocks into")
            self._release(plan)
            return self._fetch_of(FetchPlan(tag=b""))

    def _fetch_of(self, plan: FetchPlan) -> TierFetch:
        return TierFetch(
            plan,
            storage=self._storage,
            arena=self._arena,
            disk=self._disk,
            timer=self._timer,
            on_read=self._worth.note_disk_read,
            on_loaded=self._loaded,
            on_closed=self._fetch_closed,
        )

    def _loaded(self, n_tokens: int, seconds: float) -> None:
        self._counters.restored_tokens += n_tokens
        self._worth.note_load(n_tokens, seconds)

    def _fetch_closed(self, fetch: TierFetch) -> None:
        self._fetches.discard(fetch)
        self._n_fetching -= len(fetch.plan.disk_names)
        self._release(fetch.plan)

    def _release(self, plan: FetchPlan) -> None:
        for source in plan.sources:
            if isinstance(source, HostBlock):
                self._host.release(source)

    def _disk_changed(self, stored: bool, names: tuple[bytes, ...]) -> None:
        self._changes.add(Medium.DISK, stored, names)
