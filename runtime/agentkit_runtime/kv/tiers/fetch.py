"""Blocks on their way back: from host memory at once, from disk by a few threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agentkit_runtime.kv.extent import Extent, split, total
from agentkit_runtime.kv.tiers.arena import HostArena
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.host import HostBlock
from agentkit_runtime.kv.tiers.rows import RowStore

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class FetchPlan:
    """What is to be brought, in order."""

    tag: bytes
    """Of the namespace; see `disk_file.namespace_tag`."""
    sources: list[HostBlock | bytes] = field(default_factory=list)
    """A block that the fetch uses, or the name of one on disk."""

    @property
    def names(self) -> list[bytes]:
        """Names of all blocks."""
        return [source if isinstance(source, bytes) else source.name for source in self.sources]

    @property
    def disk_names(self) -> list[bytes]:
        """Names of the blocks that must be read from disk."""
        return [source for source in self.sources if isinstance(source, bytes)]


class TierFetch:
    """One caller's blocks; `base.Fetch`. `read` runs in any number of threads."""

    def __init__(
        self,
        plan: FetchPlan,
        *,
        storage: RowStore,
        arena: HostArena,
        disk: DiskStore | None,
        timer: Callable[[], float],
        on_read: Callable[[int, float], None],
        on_loaded: Callable[[int, float], None],
        on_closed: Callable[[TierFetch], None],
    ) -> None:
        self.plan = plan
        self._storage = storage
        self._arena = arena
        self._disk = disk
        self._timer = timer
        self._on_read, self._on_loaded, self._on_closed = on_read, on_loaded, on_closed
        self._lock = threading.Lock()
        names = plan.disk_names
        self._disk_index = [i for i, s in enumerate(plan.sources) if isinstance(s, bytes)]
        self._rows = torch.empty(
            (len(names), BLOCK_TOKENS, storage.bytes_per_token), dtype=torch.uint8
        )
        """Of the blocks from disk, in order."""
        self._arrived = [isinstance(source, HostBlock) for source in plan.sources]
        self._leading = 0
        self._end = len(plan.sources)
        """The first block that will not arrive."""
        self._claimed = self._reading = 0
        self._began_s: float | None = None
        self._closed = False
        self._advance()

    @property
    def done(self) -> bool:
        """See `Fetch.done`."""
        with self._lock:
            return self._leading >= self._end

    @property
    def n_blocks(self) -> int:
        """See `Fetch.n_blocks`."""
        with self._lock:
            return self._leading

    def load(self, extents: Sequence[Extent]) -> None:
        """See `Fetch.load`."""
        n_tokens, n_here = total(extents), self.n_blocks
        if n_tokens % BLOCK_TOKENS or n_tokens > n_here * BLOCK_TOKENS:
            raise ValueError(
                f"slots for {n_tokens} tokens, but a whole number of blocks of {BLOCK_TOKENS} is "
                f"needed, and {n_here} blocks have arrived"
            )
        began = self._timer()
        rest = list(extents)
        for rows in self._row_runs(n_tokens // BLOCK_TOKENS):
            head, rest = split(rest, rows.shape[0])
            self._storage.load(head, rows)
        self._on_loaded(n_tokens, self._timer() - began)

    def close(self) -> None:
        """See `Fetch.close`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._end = self._leading = 0
        self._on_closed(self)

    def cancel(self) -> None:
        """End it with nothing: its blocks were forgotten."""
        with self._lock:
            self._end = self._leading = 0

    def read(self) -> None:
        """Read blocks from disk until none is left, one is missing, or nobody wants them."""
        while (item := self._claim()) is not None:
            index, name = item
            assert self._disk is not None, "blocks on disk need a disk"
            try:
                rows = self._rows[index].numpy().data.cast("B")
                here = self._disk.read(name, rows)
            except Exception:  # whatever it was, the block can be computed
                _log.exception("reading a KV block failed")
                here = False
            self._finish(index, here=here)

    def _claim(self) -> tuple[int, bytes] | None:
        with self._lock:
            index = self._claimed
            if index >= len(self._disk_index) or self._disk_index[index] >= self._end:
                return None
            if self._began_s is None:
                self._began_s = self._timer()
            self._claimed += 1
            self._reading += 1
            name = self.plan.sources[self._disk_index[index]]
            assert isinstance(name, bytes)
            return index, name

    def _finish(self, index: int, *, here: bool) -> None:
        with self._lock:
            self._reading -= 1
            at = self._disk_index[index]
            if here:
                self._arrived[at] = True
            else:
                self._end = min(self._end, at)
            self._advance()
            assert self._began_s is not None
            seconds = self._timer() - self._began_s
            last = not self._reading and self._claimed == len(self._disk_index)
        if last and here:
            self._on_read(len(self._disk_index), seconds)

    def _advance(self) -> None:
        while self._leading < self._end and self._arrived[self._leading]:
            self._leading += 1

    def _row_runs(self, n_blocks: int) -> Iterator[Tensor]:
        """Rows of the first blocks, in order, in as few pieces as they lie in."""
        places: list[int] = []
        first = n_rows = 0  # of the present run of blocks from disk
        for source in self.plan.sources[:n_blocks]:
            if isinstance(source, HostBlock):
                if n_rows:
                    yield self._rows[first : first + n_rows].flatten(0, 1)
                    first, n_rows = first + n_rows, 0
                places.append(source.place)
            else:
                if places:
                    yield from self._arena.take(places)
                    places = []
                n_rows += 1
        yield from self._arena.take(places)
        if n_rows:
            yield self._rows[first : first + n_rows].flatten(0, 1)
