"""What the engine counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentkit_runtime.attention.base import AttentionStats
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.tiers.base import Tiers
from agentkit_runtime.kv.tiers.stats import TierStats
from agentkit_runtime.sched.scheduler import Scheduler
from agentkit_runtime.sched.sequence import Chunk
from agentkit_runtime.sched.stats import SchedulerStats
from agentkit_runtime.types import FinishReason, RequestStats


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreStats:
    """A snapshot of the engine. Slots: free + cached + held = total. Counts are since start."""

    running: int
    waiting: int
    total_slots: int
    free_slots: int
    cached_slots: int
    """In the radix tree and not locked: reusable, and evictable."""
    steps: int
    computed_tokens: int
    """Tokens that went through the model, guesses included."""
    prompt_tokens: int
    """Prompt tokens of ended requests; of several samples of one prompt, once."""
    hit_tokens: int
    """Of these, read from the radix tree."""
    preemptions: int
    restored_tokens: int = 0
    """Of `hit_tokens`, those that came back from host memory or disk."""
    public_tokens: int = 0
    """Tokens of published prefixes that were read from the tree."""
    evicted_tokens: int = 0
    """Tokens that left the tree to make room."""
    lost_tokens: int = 0
    """Tokens of starting requests that had been cached lately and were not there any more: with
    `prefill_tokens` it says how much the pool thrashes (`kv.ghosts`)."""
    pinned_tokens: int = 0
    """Tokens that pins keep in the tree now."""
    prefill_tokens: int = 0
    """Of `computed_tokens`, those of prompts; computed again after a preemption counts again."""
    generated_tokens: int = 0
    """Tokens that callers got."""
    drafted_tokens: int = 0
    """Of `computed_tokens`, guesses at generated tokens."""
    accepted_tokens: int = 0
    """Of `drafted_tokens`, those that the model agreed with."""
    prefill_s: float = 0.0
    """Seconds in steps that computed prompt tokens (and perhaps others)."""
    decode_s: float = 0.0
    """Seconds in all other steps."""
    warm_requests: int = 0
    """Requests that got a first token and had at least half of their prompt read from the cache."""
    warm_ttft_s: float = 0.0
    """Sum of their seconds from submit to the first token."""
    cold_requests: int = 0
    """The other requests that got a first token."""
    cold_ttft_s: float = 0.0
    """Sum of their seconds from submit to the first token."""
    ended: Mapping[FinishReason, int] = field(default_factory=dict)
    """Requests that ended, by reason; a reason that never occurred is missing."""
    split_steps: int = 0
    """Steps that failed, most likely for want of memory, and were run again in parts."""
    scheduler: SchedulerStats
    attention: AttentionStats
    """Which prefixes were read once for several requests, and which were not worth it."""
    tiers: TierStats | None = None
    """Host memory and disk behind the pool; None where there are none."""

    @property
    def held_slots(self) -> int:
        """Slots that running requests hold, alone or through a lock on the tree."""
        return self.total_slots - self.free_slots - self.cached_slots


@dataclass(slots=True)
class Counters:
    """The counts of `CoreStats`, as they grow."""

    steps: int = 0
    computed_tokens: int = 0
    prefill_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    split_steps: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    restored_tokens: int = 0
    generated_tokens: int = 0
    warm_requests: int = 0
    warm_ttft_s: float = 0.0
    cold_requests: int = 0
    cold_ttft_s: float = 0.0
    ended: dict[FinishReason, int] = field(default_factory=dict)

    def count_step(self, chunks: Sequence[Chunk], seconds: float) -> None:
        """Count a step that was run."""
        prefill = sum(_prompt_tokens(chunk) for chunk in chunks)
        self.steps += 1
        self.computed_tokens += sum(chunk.n_rows for chunk in chunks)
        self.prefill_tokens += prefill
        self.drafted_tokens += sum(len(chunk.draft) for chunk in chunks)
        if prefill:
            self.prefill_s += seconds
        else:
            self.decode_s += seconds

    def count_end(
        self, stats: RequestStats, reason: FinishReason, *, repeats_prompt: bool = False
    ) -> None:
        """Count a generation that ended; see `GenerateRequest.repeats_prompt`."""
        self.generated_tokens += stats.completion_tokens
        self.ended[reason] = self.ended.get(reason, 0) + 1
        if not repeats_prompt:
            self._count_prompt(stats)

    def _count_prompt(self, stats: RequestStats) -> None:
        self.prompt_tokens += stats.prompt_tokens
        self.hit_tokens += stats.cached_tokens
        self.restored_tokens += stats.restored_tokens
        if stats.ttft_s is None:
            return
        if 2 * stats.cached_tokens >= stats.prompt_tokens:
            self.warm_requests += 1
            self.warm_ttft_s += stats.ttft_s
        else:
            self.cold_requests += 1
            self.cold_ttft_s += stats.ttft_s

    def snapshot(
        self, cache: KvCache, scheduler: Scheduler, *, attention: AttentionStats
    ) -> CoreStats:
        """Return these counts together with what is there at this moment."""
        return CoreStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            total_slots=cache.n_slots,
            free_slots=cache.free_slots,
            cached_slots=cache.evictable_slots,
            preemptions=scheduler.n_preemptions,
            steps=self.steps,
            computed_tokens=self.computed_tokens,
            prompt_tokens=self.prompt_tokens,
            hit_tokens=self.hit_tokens,
            restored_tokens=self.restored_tokens,
            prefill_tokens=self.prefill_tokens,
            generated_tokens=self.generated_tokens,
            drafted_tokens=self.drafted_tokens,
            accepted_tokens=self.accepted_tokens,
            prefill_s=self.prefill_s,
            decode_s=self.decode_s,
            warm_requests=self.warm_requests,
            warm_ttft_s=self.warm_ttft_s,
            cold_requests=self.cold_requests,
            cold_ttft_s=self.cold_ttft_s,
            split_steps=self.split_steps,
            ended=dict(self.ended),
            public_tokens=cache.counters.matched_public,
            evicted_tokens=cache.counters.evicted,
            lost_tokens=cache.counters.lost,
            pinned_tokens=cache.pinned_tokens,
            scheduler=scheduler.stats(),
            attention=attention,
            tiers=None if cache.tiers is None else cache.tiers.stats(),
        )


def note_prefill(tiers: Tiers, chunks: Sequence[Chunk], seconds: float) -> None:
    """Tell tiers how long prompts take, after a step that did little else."""
    parts = [(chunk.start, _prompt_tokens(chunk)) for chunk in chunks]
    n_tokens = sum(n for _, n in parts)
    if 2 * n_tokens > sum(chunk.n_rows for chunk in chunks):
        before = sum(n * start + n * (n - 1) // 2 for start, n in parts)
        tiers.note_prefill(n_tokens, seconds, context=before // n_tokens)


def _prompt_tokens(chunk: Chunk) -> int:
    """Tokens of a chunk that are of its prompt; the others were generated."""
    return max(0, min(chunk.n, chunk.sequence.n_prompt - chunk.start))
