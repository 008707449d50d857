"""A core without a model: it "computes" chunks by writing down for which prefix each slot holds KV.

Tokens are deterministic: each is a hash of what precedes it. So a request has one right answer,
however it was scheduled, and a slot that was reused, or read before it was computed, shows up.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentkit_runtime.kv.cache import KvCache, Lease
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tree import RadixTree
from agentkit_runtime.sched import sequence as sequences
from agentkit_runtime.sched.scheduler import Scheduler, SchedulerOptions
from agentkit_runtime.sched.sequence import Chunk, Ended
from agentkit_runtime.types import (
    FinishReason,
    GenerateRequest,
    Priority,
    RequestStats,
    SamplingParams,
)
from tests.runtime.no_text import NoText
from tests.runtime.sched.slow_tier import Content, SlowTier

VOCAB = 5
MAX_LENGTH = 10_000


@dataclass(eq=False)
class Request:
    """One request and what became of it."""

    sequence: sequences.Sequence
    submitted_step: int
    started_step: int | None = None
    reason: FinishReason | None = None
    error: str | None = None
    stats: RequestStats | None = None
    computed: int = 0
    """Tokens that ran for it, guesses apart."""

    @property
    def ids(self) -> list[int]:
        return self.sequence.ids(0, self.sequence.length)

    @property
    def generated(self) -> list[int]:
        return self.ids[self.sequence.n_prompt :]


def prompt_of(seed: int, n: int) -> list[int]:
    """`n` token ids that share next to nothing with those of another seed."""
    rng = random.Random(seed)
    return [rng.randrange(1000) for _ in range(n)]


def next_token(ids: Sequence[int]) -> int:
    """The right continuation."""
    return hash(tuple(ids[-7:])) % VOCAB


@dataclass
class Simulation:
    """Drives a scheduler; time passes only when `step_s` does."""

    n_slots: int
    options: SchedulerOptions
    step_s: float = 0.1
    guess: int = 0
    """Guesses made in each step; every second one is wrong."""
    now_s: float = 1000.0
    n_steps: int = 0
    requests: list[Request] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    """Of the last step."""
    n_computed: int = 0

    def __post_init__(self) -> None:
        allocator = SlotAllocator(self.n_slots)
        self.cache = KvCache(allocator, RadixTree(), eviction_step=1, clock=lambda: self.now_s)
        self.scheduler = Scheduler(self.cache, self.options, lambda: self.now_s)
        self._arrivals = itertools.count()
        self._content: Content = {}
        self.tier = SlowTier(self._content)
        self._by_sequence: dict[sequences.Sequence, Request] = {}

    def add(
        self,
        prompt: Iterable[int],
        n: int | None = 4,
        *,
        tenant: str = "",
        priority: Priority = Priority.NORMAL,
        deadline_s: float | None = None,
        namespace: bytes = b"ns",
        session: str | None = None,
        tags: frozenset[str] = frozenset(),
    ) -> Request:
        arrival = next(self._arrivals)
        request = GenerateRequest(
            request_id=f"r{arrival}",
            prompt=tuple(prompt),
            namespace=namespace,
            text=NoText(),
            sampling=SamplingParams(max_tokens=n),
            scope=Scope(tenant=tenant, session=session, tags=tags),
            priority=priority,
            deadline_s=deadline_s,
        )
        sequence = sequences.Sequence.start(
            request, arrival=arrival, now_s=self.now_s, max_length=min(MAX_LENGTH, self.n_slots)
        )
        added = Request(sequence, self.n_steps)
        self.requests.append(added)
        self._by_sequence[sequence] = added
        self.scheduler.add(sequence)
        return added

    @property
    def idle(self) -> bool:
        return not self.scheduler.running and not self.scheduler.waiting

    def step(self) -> None:
        self.now_s += self.step_s
        self.n_steps += 1
        lanes = {s for s in self.scheduler.running if not s.prefilling}
        chunks, ended = self.scheduler.plan()
        self.chunks = chunks
        for gone in ended:
            self._end(gone)
        assert chunks or ended or self.scheduler.idle_wait_s > 0, "an empty step helps nobody"
        self._check_plan(chunks, lanes)
        for chunk in chunks:
            self._read_and_write(chunk)
        for chunk in chunks:
            self.scheduler.commit(chunk)
        for chunk in chunks:
            self._generate(chunk)
        self.check()

    def run(self, n: int) -> None:
        for _ in range(n):
            self.step()

    def drain(self, limit: int = 3000) -> None:
        for _ in range(limit):
            if self.idle:
                return
            if not self.chunks:
                self.tier.arrive()
            self.step()
        raise AssertionError(f"not idle after {limit} steps: {self.scheduler.stats()}")

    def check(self) -> None:
        self.cache.check_integrity([s.lease for s in self.scheduler.running if s.lease is not None])
        holders = {id(s) for s in self.scheduler.running}
        assert all((s.lease is not None) == (id(s) in holders) for s in self._by_sequence)
        if self.idle:
            held = self.cache.n_slots - self.cache.free_slots - self.cache.evictable_slots
            assert held == 0

    def _check_plan(self, chunks: list[Chunk], lanes: set[sequences.Sequence]) -> None:
        options = self.options
        assert sum(chunk.n_rows for chunk in chunks) <= options.step_tokens
        assert len({chunk.sequence for chunk in chunks}) == len(chunks) <= options.max_lanes
        assert len(self.scheduler.running) <= options.max_lanes
        if (
            any(chunk.sequence in lanes for chunk in chunks)
            and options.mixed_prefill_tokens is not None
        ):
            prompts = sum(chunk.n for chunk in chunks if chunk.sequence.prefilling)
            assert prompts <= options.mixed_prefill_tokens
        for chunk in chunks:
            assert chunk.n >= 1
            assert chunk.start == chunk.sequence.computed
            assert not chunk.draft or chunk.samples
            assert chunk.sequence.lease is not None
            assert chunk.start + chunk.n_rows <= chunk.sequence.lease.capacity
            assert chunk.sequence.length + len(chunk.draft) <= chunk.sequence.limit
            request = self._by_sequence[chunk.sequence]
            if request.started_step is None:
                request.started_step = self.n_steps

    def _read_and_write(self, chunk: Chunk) -> None:
        sequence, lease = chunk.sequence, chunk.sequence.lease
        assert lease is not None
        ids = (*sequence.ids(0, chunk.start + chunk.n), *chunk.draft)
        slots = [slot for run in lease.extents for slot in range(run.start, run.end)]
        for position in range(chunk.start):
            assert self._content[slots[position]] == (lease.namespace, ids[: position + 1])
        for position in range(chunk.start, len(ids)):
            self._content[slots[position]] = lease.namespace, ids[: position + 1]
        self._by_sequence[sequence].computed += chunk.n
        self.n_computed += chunk.n

    def fill(self, lease: Lease, ids: Sequence[int]) -> None:
        """Somebody else computes these tokens."""
        slots = [slot for run in lease.extents for slot in range(run.start, run.end)]
        for position in range(len(ids)):
            self._content[slots[position]] = lease.namespace, tuple(ids[: position + 1])

    def _generate(self, chunk: Chunk) -> None:
        sequence = chunk.sequence
        if chunk.completes:
            self._finish(sequence, FinishReason.LENGTH)
            return
        if not chunk.samples:
            return
        agreed = 0
        while True:
            token = next_token(sequence.ids(0, sequence.length))
            sequence.append(token)
            right = agreed < len(chunk.draft) and chunk.draft[agreed] == token
            agreed += right
            if not right or sequence.length >= sequence.limit:
                break
        self.scheduler.accept(chunk, agreed)
        if sequence.length >= sequence.limit:
            self._finish(sequence, FinishReason.LENGTH)
        elif self.guess:
            ids = sequence.ids(0, sequence.length)
            for i in range(self.guess):
                ids.append((next_token(ids) + i % 2) % VOCAB)
            sequence.draft = tuple(ids[-self.guess :])

    def _finish(self, sequence: sequences.Sequence, reason: FinishReason) -> None:
        self.scheduler.finish(sequence)
        self._end(Ended(sequence, reason))

    def _end(self, gone: Ended) -> None:
        request = self._by_sequence.pop(gone.sequence)
        assert request.reason is None
        request.reason, request.error = gone.reason, gone.error
        request.stats = gone.sequence.stats(self.now_s)


def simulation(
    n_slots: int = 512,
    *,
    step_s: float = 0.1,
    guess: int = 0,
    options: SchedulerOptions | None = None,
    tier: bool = False,
) -> Simulation:
    """Make one with an empty pool; `tier` puts a slower tier behind it."""
    sim = Simulation(n_slots, options or SchedulerOptions(), step_s=step_s, guess=guess)
    if tier:
        sim.cache.attach_tiers(sim.tier)
    return sim
