"""Continuous batching with chunked prefill over one token budget.

Every sequence just catches up from `computed` to its known length; there are no phases. A step
takes one token of each decoding lane first, then chunks of running prefills, then admits waiting
sequences in arrival order. A sequence is admitted only when the slots for its whole prompt are
there, so a prefill never stalls half way; a decoding lane that finds no slot preempts the
youngest sequence, whose computed tokens stay in the tree and are matched again when it resumes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.sched.policy import SHARED_MIN_TOKENS, must_wait
from agentkit_runtime.sched.sequence import Chunk, Ended, Sequence
from agentkit_runtime.types import FinishReason

HEADROOM_TOKENS = 16
"""Slots kept for each running lane when another is admitted, so that admission does not preempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """Bounds of a step."""

    step_tokens: int = 512
    """Most new tokens in one step."""
    max_lanes: int = 32
    """Most sequences in one step."""
    shared_min_tokens: int = SHARED_MIN_TOKENS
    """Wait for a neighbour's prefill when at least this many leading tokens are the same."""
    max_scan: int = 256
    """Waiting sequences looked at in one step."""
    reserve_tokens: int = 128
    """Slots taken ahead for generated tokens where they lie next to the prompt's."""

    def __post_init__(self) -> None:
        for name in ("step_tokens", "max_lanes", "max_scan", "shared_min_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")


class Scheduler:
    """Holds the waiting and running sequences. Used by one thread only."""

    def __init__(
        self, cache: KvCache, options: SchedulerOptions, clock: Callable[[], float]
    ) -> None:
        self._cache = cache
        self._options = options
        self._clock = clock
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.n_preemptions = 0
        self._preempted = False

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.append(sequence)

    def plan(self) -> tuple[list[Chunk], list[Ended]]:
        """Choose this step's chunks; slots for all of them are held.

        Returns:
            The chunks (empty when nothing can run), and sequences that ended instead.
        """
        ended = self._drop_aborted()
        self._preempted = False
        budget = self._options.step_tokens
        chunks: list[Chunk] = []
        # Decoding lanes have one token to go and come first.
        for sequence in sorted(self.running, key=lambda s: s.prefilling):
            if budget < 1 or sequence not in self.running:
                continue
            if self._grow_or_preempt(sequence, chunks, ended):
                budget -= self._take(sequence, budget, chunks)
        if not self._preempted:  # a sequence that just left would come straight back
            self._admit(budget, chunks, ended)
        return chunks, ended

    def commit(self, chunk: Chunk) -> None:
        """Record that a chunk's KV is computed; a prefill's tokens become visible to others at
        once."""
        sequence = chunk.sequence
        sequence.computed = chunk.start + chunk.n
        assert sequence.lease is not None, "a running sequence holds a lease"
        # Only the prompt here; the generated tail comes last and so is evicted first.
        n = min(sequence.computed, sequence.n_prompt)
        if n > sequence.lease.committed:
            self._cache.commit(sequence.lease, sequence.key(n))

    def accept(self, chunk: Chunk, n: int) -> None:
        """Keep the KV of a chunk's first `n` guesses: the model chose the same tokens.

        To be called after `commit`, when these tokens have been appended to the sequence.
        """
        sequence = chunk.sequence
        assert n <= len(chunk.draft), "no more can be right than were guessed"
        assert chunk.start + chunk.n + n <= sequence.length, "accepted tokens are appended first"
        sequence.computed = chunk.start + chunk.n + n
        sequence.drafted_tokens += len(chunk.draft)
        sequence.accepted_tokens += n

    def finish(self, sequence: Sequence) -> None:
        """Take a sequence out and keep what it computed for others."""
        lease = sequence.lease
        if lease is not None and sequence.computed > lease.committed:
            self._cache.commit(lease, sequence.key(sequence.computed))
        self.drop(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Take a sequence out and give back what it holds; nothing more is committed."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        if sequence.lease is not None:
            self._cache.release(sequence.lease)
            sequence.lease = None

    def _drop_aborted(self) -> list[Ended]:
        gone = [s for s in (*self.running, *self.waiting) if s.aborted]
        for sequence in gone:
            self.drop(sequence)
        return [Ended(s, FinishReason.ABORT) for s in gone]

    def _take(self, sequence: Sequence, budget: int, chunks: list[Chunk]) -> int:
        n = min(budget, sequence.length - sequence.computed)
        draft: tuple[int, ...] = ()
        if sequence.computed + n == sequence.length:
            draft = sequence.draft[: min(budget - n, self._room_for_draft(sequence))]
        sequence.draft = ()
        if draft:
            assert sequence.lease is not None, "a running sequence holds a lease"
            self._cache.grow(sequence.lease, sequence.length + len(draft))
        chunks.append(Chunk(sequence, sequence.computed, n, draft))
        return n + len(draft)

    def _room_for_draft(self, sequence: Sequence) -> int:
        """How many guesses could be accepted and have a slot without evicting anything for them."""
        lease = sequence.lease
        assert lease is not None, "a running sequence holds a lease"
        spare = lease.capacity - sequence.length + self._cache.free_slots
        return max(0, min(spare, sequence.limit - sequence.length - 1))

    def _grow_or_preempt(self, sequence: Sequence, chunks: list[Chunk], ended: list[Ended]) -> bool:
        """Hold slots for all known tokens of a running sequence; False when it had to leave."""
        lease = sequence.lease
        assert lease is not None, "a running sequence holds a lease"
        while True:
            try:
                self._cache.grow(lease, sequence.length, reserve=self._options.reserve_tokens)
            except OutOfSlots:
                if self._give_back_reserves():
                    continue
                planned = {id(chunk.sequence) for chunk in chunks}
                victims = [s for s in self.running if id(s) not in planned]
                victim = max(victims, key=lambda s: s.arrival)
                if victim is not sequence:
                    self._preempt(victim)
                elif len(self.running) > 1:
                    self._preempt(sequence)
                    return False
                else:
                    self.finish(sequence)
                    ended.append(Ended(sequence, FinishReason.LENGTH))
                    return False
            else:
                return True

    def _give_back_reserves(self) -> bool:
        """Free slots that running sequences took ahead; True when there were any."""
        before = self._cache.available
        for sequence in self.running:
            if sequence.lease is not None:
                self._cache.shrink(sequence.lease, sequence.length)
        return self._cache.available > before

    def _preempt(self, sequence: Sequence) -> None:
        """Free a running sequence's slots; it resumes later with what is still in the tree."""
        lease = sequence.lease
        assert lease is not None, "a running sequence holds a lease"
        if sequence.computed > lease.committed:
            self._cache.commit(lease, sequence.key(sequence.computed))
        self.drop(sequence)
        sequence.computed = 0
        self.waiting.appendleft(sequence)
        self.n_preemptions += 1
        self._preempted = True

    def _admit(self, budget: int, chunks: list[Chunk], ended: list[Ended]) -> None:
        """Start waiting sequences in arrival order while tokens, lanes and slots last."""
        for sequence in list(self.waiting)[: self._options.max_scan]:
            if budget < 1 or len(self.running) >= self._options.max_lanes:
                return
            if must_wait(
                sequence,
                self.running,
                self._cached,
                min_tokens=self._options.shared_min_tokens,
            ):
                continue
            if not self._start(sequence):
                if not self.running:  # not even alone: waiting longer would be waiting for ever
                    self.drop(sequence)
                    ended.append(
                        Ended(sequence, FinishReason.ERROR, "no KV slots for this request")
                    )
                return  # later ones must not overtake: they would starve a long prompt for ever
            if sequence.computed == sequence.length:  # it only fills the cache, and all is there
                self.finish(sequence)
                ended.append(Ended(sequence, FinishReason.LENGTH))
                continue
            budget -= self._take(sequence, budget, chunks)

    def _cached(self, sequence: Sequence) -> int:
        return self._cache.peek(sequence.request.namespace, sequence.key(sequence.length - 1))

    def _start(self, sequence: Sequence) -> bool:
        """Match, lock and hold slots for all known tokens; False when there is no room now."""
        # The last token always runs: its logits are what the next token is sampled from.
        lease = self._cache.acquire(
            sequence.request.namespace,
            sequence.key(sequence.length),
            max_match=sequence.length if sequence.fills_only else sequence.length - 1,
        )
        wanted = sequence.length - lease.cached + HEADROOM_TOKENS * len(self.running)
        if wanted > self._cache.available and self.running:
            self._cache.release(lease)
            return False
        try:
            self._cache.grow(lease, sequence.length, reserve=self._options.reserve_tokens)
        except OutOfSlots:
            self._cache.release(lease)
            return False
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.lease = lease
        sequence.computed = lease.cached
        if sequence.cached_tokens is None:
            sequence.cached_tokens = min(lease.cached, sequence.n_prompt)
            sequence.started_s = self._clock()
        return True
