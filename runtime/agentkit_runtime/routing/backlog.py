"""Batches that were sent, for those who missed some."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator

from agentkit_runtime.checks import require_whole


class Backlog:
    """The last batches with their numbers, which count up from 0 without holes."""

    def __init__(self, *, max_batches: int = 10_000, max_bytes: int = 64 << 20) -> None:
        require_whole("max_batches", max_batches, least=1)
        require_whole("max_bytes", max_bytes, least=1)
        self.next_seq = 0
        """Number of the batch that comes next."""
        self.max_batches = max_batches
        self._max_bytes = max_bytes
        self._kept: deque[bytes] = deque()
        self._bytes = 0

    def add(self, payload: bytes) -> int:
        """Keep a batch; returns its number."""
        self._kept.append(payload)
        self._bytes += len(payload)
        while len(self._kept) > self.max_batches or self._bytes > self._max_bytes:
            self._bytes -= len(self._kept.popleft())
        self.next_seq += 1
        return self.next_seq - 1

    def since(self, seq: int) -> Iterator[tuple[int, bytes]]:
        """Batches from number `seq` on, as far as they are kept."""
        first = self.next_seq - len(self._kept)
        begin = max(seq, first)
        return zip(
            itertools.count(begin), itertools.islice(self._kept, begin - first, None), strict=False
        )
