"""What entered and left the cache, as a numbered stream that routers can follow.

The names and grain are those that routers of vLLM and SGLang know: a block is 16 tokens, named by a
hash that covers all tokens before it, so a stored run carries the hash it is chained to. Each event
is about one medium: a block that leaves the device may still be in host memory. Blocks of a
published prefix are reported once, under the public namespace. Transport is somebody else's job.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Medium, TierChange

_LOG = logging.getLogger(__name__)


class BlockStored(NamedTuple):
    """Consecutive blocks became readable."""

    block_hashes: tuple[bytes, ...]
    """32 bytes each."""
    parent_block_hash: bytes | None
    """What the first one is chained to; a namespace's first block has a parent of its own. None
    when blocks came to a slower tier, in no order."""
    token_ids: bytes
    """Packed, of all blocks together; empty when blocks came to a slower tier."""
    medium: Medium
    format: KvFormat
    namespace: bytes
    """Digest; empty when blocks came to a slower tier, which knows the names only."""
    block_size: int = BLOCK_TOKENS


class BlockRemoved(NamedTuple):
    """Blocks can no longer be read from this medium."""

    block_hashes: tuple[bytes, ...]
    medium: Medium


class AllBlocksCleared(NamedTuple):
    """Nothing is left on any medium."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class Numbered(NamedTuple):
    """An event and its place in the stream; numbers begin at 1 and have no holes."""

    seq: int
    event: KvEvent


@dataclass(frozen=True, slots=True)
class Gap:
    """The events asked for are no longer kept: start anew from the cache's state."""

    first_kept: int
    """Number of the oldest event that can still be read."""


Subscriber = Callable[[int, KvEvent], None]


class EventLog:
    """Numbers events, keeps the last ones, and hands each to all subscribers.

    At most `max_events` are kept, and of them at most `max_bytes` of tokens and hashes.
    """

    def __init__(
        self,
        format: KvFormat = KvFormat.FLOAT32,
        *,
        max_events: int = 10_000,
        max_bytes: int = 64 << 20,
    ) -> None:
        if max_events < 1 or max_bytes < 1:
            raise ValueError(
                f"max_events and max_bytes must be at least 1, got {max_events!r}, {max_bytes!r}"
            )
        self.format = format
        self.seq = 0
        """Number of the newest event; 0 is none."""
        self._ring: deque[Numbered] = deque()
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._bytes = 0
        self._subscribers: list[Subscriber] = []

    def emit(self, event: KvEvent) -> None:
        """Append an event. Never raises: a subscriber that fails is logged and left out."""
        self.seq += 1
        self._ring.append(Numbered(self.seq, event))
        self._bytes += _size(event)
        while len(self._ring) > self._max_events or self._bytes > self._max_bytes:
            self._bytes -= _size(self._ring.popleft().event)
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(self.seq, event)
            except Exception:  # the cache must not stop because somebody cannot listen
                _LOG.exception("a subscriber of KV events failed and gets no more of them")
                self._subscribers.remove(subscriber)

    def tier_changed(self, change: TierChange) -> None:
        """Report what a slower tier stored or dropped."""
        if change.stored:
            self.emit(BlockStored(change.names, None, b"", change.medium, self.format, b""))
        else:
            self.emit(BlockRemoved(change.names, change.medium))

    def since(self, seq: int, *, most: int | None = None) -> list[Numbered] | Gap:
        """The events behind number `seq`, oldest first, or what is missing between.

        At most `most`, if that is given. A number that is still to come has none behind it.
        """
        first_kept = self.seq - len(self._ring) + 1
        if seq + 1 < first_kept:
            return Gap(first_kept)
        begin = min(seq + 1 - first_kept, len(self._ring))
        end = len(self._ring) if most is None else begin + most
        return list(itertools.islice(self._ring, begin, end))

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each new event, in the engine's thread; returns the way out."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe


def _size(event: KvEvent) -> int:
    if isinstance(event, BlockStored):
        return 32 * len(event.block_hashes) + len(event.token_ids)
    if isinstance(event, BlockRemoved):
        return 32 * len(event.block_hashes)
    return 0
