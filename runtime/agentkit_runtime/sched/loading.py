"""Prefixes that come back from host memory or disk before a sequence starts.

A sequence whose turn it is, and for which there is room, starts one fetch and waits; others go on
meanwhile. It holds no slots of its own while it waits, so loads cannot block each other: what has
arrived goes into the tree at the start of a step, unlocked, and is matched like anything else.
"""

from __future__ import annotations

from contextlib import suppress

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.restore import Restore
from agentkit_runtime.sched.sequence import Sequence, readable


class Loading:
    """The waiting sequences for which a fetch is under way."""

    def __init__(self, cache: KvCache) -> None:
        self._cache = cache
        self.sequences: dict[Sequence, Restore] = {}

    def __len__(self) -> int:
        return len(self.sequences)

    def begin(self, sequence: Sequence) -> bool:
        """Start to fetch what is worth it; False when there is nothing. Asks once for a start."""
        request = sequence.request
        sequence.restore_tried = True
        n_tokens = readable(sequence)
        wanted = self._cache.restorable(
            request.namespace, sequence.key(n_tokens), scope=request.scope
        )
        if wanted is None:
            return False
        sequence.restore = self.sequences[sequence] = self._cache.begin_restore(wanted)
        return True

    def take_in(self) -> None:
        """Put what has arrived into the tree."""
        arrived = [(s, restore) for s, restore in self.sequences.items() if restore.done]
        for sequence, restore in arrived:
            with suppress(Exception):  # the tokens of a tier that fails are computed
                sequence.restored_tokens += self._cache.finish_restore(restore)
            self._forget(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """A sequence leaves. Does nothing when it does not load."""
        if sequence.restore is not None:
            self._cache.cancel_restore(sequence.restore)
            self._forget(sequence)

    def _forget(self, sequence: Sequence) -> None:
        sequence.restore = None
        del self.sequences[sequence]
