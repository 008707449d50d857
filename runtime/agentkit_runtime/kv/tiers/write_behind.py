"""Blocks on their way from host memory to disk, in one thread and behind everybody's back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from agentkit_runtime.kv.tiers.arena import HostArena
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.disk_file import namespace_tag
from agentkit_runtime.kv.tiers.host import HostBlock, HostIndex

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Write:
    block: HostBlock
    used_s: float
    cancelled: bool = False


class WriteBehind:
    """A bounded queue of writes. A block stays in its place in host memory until it is written.

    All but the writing itself is for the engine's thread.
    """

    def __init__(
        self, host: HostIndex, arena: HostArena, disk: DiskStore, writer: Executor, *, bound: int
    ) -> None:
        self._host = host
        self._arena = arena
        self._disk = disk
        self._writer = writer
        self.bound = bound
        """Most blocks that can wait."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._is_closed = False
        self._pending: dict[bytes, _Write] = {}
        self.sweep()

    def __contains__(self, name: bytes) -> bool:
        """Whether a block is about to be written."""
        write = self._pending.get(name)
        return write is not None and not write.cancelled

    def add(self, block: HostBlock, used_s: float) -> bool:
        """Queue a block that the caller uses; False when too many wait."""
        if len(self._pending) >= self.bound:
            return False
        again = self._host.use(block.name)
        assert again is block, "the caller uses it, so it cannot have left"
        write = _Write(block, used_s)
        with self._lock:
            self._pending[block.name] = write
        self._submit(lambda: self._write(write))
        return True

    def cancel(self, namespace: bytes | None) -> None:
        """Nothing of this namespace, or of any, appears on disk any more."""
        with self._lock:
            for write in self._pending.values():
                if namespace is None or write.block.namespace == namespace:
                    write.cancelled = True

    def cancel_blocks(self, names: Iterable[bytes]) -> None:
        """None of these blocks appears on disk any more."""
        with self._lock:
            for name in names:
                if (write := self._pending.get(name)) is not None:
                    write.cancelled = True

    def sweep(self) -> None:
        """Queue the deletion of what the disk forgot."""
        self._submit(self._disk.sweep)

    def flush(self) -> None:
        """Wait until all that was queued so far is written, or lost."""
        self._submit(lambda: None).result()

    def close(self) -> None:
        """Write all that waits, then end the thread."""
        self._is_closed = True
        self._writer.shutdown(wait=True)

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        def run() -> None:
            try:
                with self._writing:
                    work()
            except Exception:  # nobody looks at the future, and the block can be computed
                _log.exception("writing KV to disk failed")

        try:
            return self._writer.submit(run)
        except RuntimeError:
            if self._is_closed:
                raise
        # The interpreter is ending: executors take no work from before `atexit`'s functions on,
        # one of which closes the engine. What it keeps is written by the caller.
        run()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _write(self, write: _Write) -> None:
        block = write.block
        try:
            if not write.cancelled:
                self._disk.write(
                    block.name,
                    namespace_tag(block.namespace),
                    self._arena.bytes_of(block.place),
                    used_s=write.used_s,
                    wanted=lambda: not write.cancelled,
                )
        finally:
            self._host.release(block)
            with self._lock:
                if self._pending.get(block.name) is write:
                    del self._pending[block.name]
