"""The running sequences and the slots that they hold."""

from __future__ import annotations

from collections.abc import Container, Iterable

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.cache import KvCache, Lease
from agentkit_runtime.sched import victims
from agentkit_runtime.sched.options import HEADROOM_TOKENS, SchedulerOptions
from agentkit_runtime.sched.sequence import Sequence, readable


class Lanes:
    """Who runs. The only part of the scheduler that takes slots and gives them back."""

    def __init__(self, cache: KvCache, options: SchedulerOptions) -> None:
        self._cache = cache
        self._options = options
        self.running: list[Sequence] = []

    @property
    def full(self) -> bool:
        """Whether nobody else can start."""
        return len(self.running) >= self._options.max_lanes

    def prefills(self) -> list[Sequence]:
        """Those that compute their prompt."""
        return [s for s in self.running if s.prefilling]

    def look(self, sequence: Sequence) -> int:
        """How much of a sequence is cached now; it remembers that."""
        request = sequence.request
        sequence.matched = self._cache.peek(
            request.namespace, sequence.key(readable(sequence)), scope=request.scope
        )
        return sequence.matched

    def has_room(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence could start now, as far as one has looked."""
        wanted = sequence.length - sequence.matched + self._headroom(sequence)
        return wanted <= self._cache.available

    def admit(self, sequence: Sequence) -> bool:
        """Match, lock and hold slots for all known tokens; False when there is no room now."""
        request = sequence.request
        lease = self._cache.acquire(
            request.namespace,
            sequence.key(sequence.length),
            max_match=readable(sequence),
            scope=request.scope,
        )
        wanted = sequence.length - lease.cached + self._headroom(sequence)
        if self.running and wanted > self._cache.available:
            self._cache.release(lease)
            return False
        try:
            self._cache.grow(lease, sequence.length, reserve=self._reserve(sequence))
        except OutOfSlots:
            self._cache.release(lease)
            return False
        self.running.append(sequence)
        missed = self._cache.missed(lease, sequence.key(readable(sequence)))
        if sequence.cached_tokens is None:
            sequence.missed = missed
        sequence.lease = lease
        sequence.computed = lease.cached
        return True

    def hold(self, sequence: Sequence, planned: Container[Sequence]) -> list[Sequence]:
        """Hold slots for all known tokens of a running sequence.

        Returns:
            Those that had to leave for it: none of a higher class and none of `planned`. It is the
            last one itself when nobody else was left.
        """
        lease = _lease(sequence)
        gone: list[Sequence] = []
        if sequence.length <= lease.capacity:
            return gone
        while sequence.lease is not None:
            try:
                self._cache.grow(lease, sequence.length, reserve=self._reserve(sequence))
            except OutOfSlots:
                if not self._give_back_reserves():
                    gone.append(self._worst(sequence, planned))
                    self.leave(gone[-1])
            else:
                break
        return gone

    def hold_draft(self, sequence: Sequence, n_wanted: int) -> int:
        """Hold slots for up to `n_wanted` guesses, evicting nothing; returns for how many."""
        lease = _lease(sequence)
        spare = lease.capacity - sequence.length + self._cache.free_slots
        # The token that is sampled behind the last guess counts against the limit, too.
        n = max(0, min(n_wanted, spare, sequence.limit - sequence.length - 1))
        self._cache.grow(lease, sequence.length + n)
        return n

    def make_way(self, sequence: Sequence, others: Iterable[Sequence]) -> list[Sequence]:
        """Let those of others leave without whom a waiting sequence can start; returns them."""
        missing = sequence.length - self.look(sequence) + self._headroom(sequence)
        shortage = missing - self._cache.available
        gone: list[Sequence] = []
        for victim in self._by_cost(others, shortage):
            if shortage <= 0 and len(self.running) - len(gone) < self._options.max_lanes:
                break
            gone.append(victim)
            shortage -= victims.freed_slots(victim)
        if shortage > 0:
            return []
        for victim in gone:
            self.leave(victim)
        return gone

    def leave(self, sequence: Sequence) -> None:
        """Take a running sequence out; what it has computed is kept for others, and for it."""
        lease = _lease(sequence)
        if sequence.computed > lease.committed:
            self._cache.commit(lease, sequence.key(sequence.computed))
        self.discard(sequence)

    def discard(self, sequence: Sequence) -> None:
        """Take a running sequence out; nothing more is committed."""
        self.running.remove(sequence)
        self._cache.release(_lease(sequence))
        sequence.lease = None

    def _headroom(self, sequence: Sequence) -> int:
        """Slots that should be left when `sequence` starts: more for one that had to leave."""
        lanes = sum(min(HEADROOM_TOKENS, s.limit - s.length) for s in self.running)
        return lanes + min(HEADROOM_TOKENS * sequence.preemptions, sequence.limit - sequence.length)

    def _reserve(self, sequence: Sequence) -> int:
        return max(0, min(self._options.reserve_tokens, sequence.limit - sequence.length))

    def _give_back_reserves(self) -> bool:
        """Free slots that running sequences took ahead; True when there were any."""
        before = self._cache.available
        for sequence in self.running:
            self._cache.shrink(_lease(sequence), sequence.length)
        return self._cache.available > before

    def _worst(self, sequence: Sequence, planned: Container[Sequence]) -> Sequence:
        """Never one of a higher class than `sequence`, which would go first itself."""
        candidates = (s for s in self.running if s is sequence or s not in planned)
        return self._by_cost(candidates, HEADROOM_TOKENS * len(self.running))[0]

    def _by_cost(self, candidates: Iterable[Sequence], n_slots: int) -> list[Sequence]:
        return victims.by_cost(
            candidates, n_slots=n_slots, max_preemptions=self._options.max_preemptions
        )


def _lease(sequence: Sequence) -> Lease:
    assert sequence.lease is not None, "a running sequence holds a lease"
    return sequence.lease
