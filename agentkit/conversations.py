"""What an agent knows of its conversations, while it lives: a base of `Agent`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from agentkit.context import Context
from agentkit.journal import JournalError
from agentkit.kept import without_oldest
from agentkit.saved import Memory

_MEMORIES_KEPT = 1_024
"""Conversations that are remembered for when they go on."""


class Conversations:
    """Which fronts were seen, what is known of conversations, and which runs are under way."""

    _fronts: frozenset[str] = frozenset()
    _held: frozenset[str] = frozenset()
    """Ids of runs that are under way."""
    _memories: Mapping[str, Memory] = MappingProxyType({})
    """What is known of the latest conversations, by the digest of their contexts."""

    def is_new_front(self, digest: str) -> bool:
        """Return whether this front is seen for the first time; it is linted once."""
        is_new = digest not in self._fronts
        self._fronts |= {digest}
        return is_new

    def memory_of(self, context: Context) -> Memory | None:
        """Return what is known of a conversation that was held here, beyond what it says itself."""
        return self._memories.get(context.digest)

    def remember(self, context: Context, memory: Memory) -> None:
        """Keep what is known of a conversation, for when it goes on."""
        latest = [*self._memories.items(), (context.digest, memory)]
        memories = dict(latest[-_MEMORIES_KEPT:])
        self._memories = without_oldest(memories) if memory.kept else memories

    @contextmanager
    def holding(self, run_id: str) -> Iterator[None]:
        """Keep others from going on with the same run at the same time, with this agent.

        Raises:
            JournalError: somebody does.
        """
        if run_id in self._held:
            raise JournalError(f"the run {run_id!r} is under way already, with this agent")
        self._held |= {run_id}
        try:
            yield
        finally:
            self._held -= {run_id}
