"""Continuous batching with chunked prefill over one token budget.

Every sequence just catches up from `computed` to its known length; there are no phases. A step
takes one token of each decoding lane first, then chunks of prompts, begun or waiting, in the order
of `turns.py`, and guesses with what is left. A sequence is admitted only when the slots for its
whole prompt are there, so a prefill never stalls half way. A decoding lane that finds no slot lets
the cheapest sequence leave, whose computed tokens stay in the tree and are matched again when it
resumes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.sched.admission import Admission
from agentkit_runtime.sched.followers import Leaders, follows
from agentkit_runtime.sched.lanes import Lanes
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.resting import Resting
from agentkit_runtime.sched.sequence import Chunk, Ended, Sequence
from agentkit_runtime.sched.shares import TenantShares
from agentkit_runtime.sched.stats import SchedulerStats
from agentkit_runtime.sched.step import Step
from agentkit_runtime.sched.turns import rank
from agentkit_runtime.sched.waiting import WaitingQueue
from agentkit_runtime.types import FinishReason, Priority

__all__ = ["Scheduler", "SchedulerOptions"]

POLL_S = 0.002
"""How often one looks whether a prefix has come from a slower tier, when nothing else is to do."""


class Scheduler:
    """Holds the waiting and running sequences. Used by one thread only."""

    def __init__(
        self, cache: KvCache, options: SchedulerOptions, clock: Callable[[], float]
    ) -> None:
        self._options = options
        self._clock = clock
        self._cache = cache
        self._lanes = Lanes(cache, options)
        self._shares = TenantShares(options.tenant_weights)
        self.waiting = WaitingQueue()
        self._admission = Admission(
            cache, self._lanes, self.waiting, self._shares, options, self.finish
        )
        self._loading = self._admission.loading
        self._resting = Resting(options)
        self._n_late = 0
        self.n_preemptions = 0
        self.idle_wait_s = 0.0
        """How long the core may sleep before the next plan, unless a request comes or goes: 0 when
        the last one gave something to do."""
        # Of the step that is planned:
        self._left: set[Sequence] = set()
        """Those that had to leave; they do not come straight back."""
        self._closed = False
        """Slots are too short for anybody to start."""

    @property
    def running(self) -> list[Sequence]:
        """The sequences that hold slots."""
        return self._lanes.running

    @property
    def tenant_weights(self) -> Mapping[str, float]:
        """Shares of tenants, relative to each other; 1 for those that are not there."""
        return self._shares.weights

    def set_tenant_weights(self, weights: Mapping[str, float]) -> None:
        """Share by other weights from now on. Raises ValueError for what is no weight."""
        self._shares.weights = replace(self._options, tenant_weights=dict(weights)).tenant_weights

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self._shares.enter(sequence.tenant)
        self._lanes.look(sequence)
        sequence.returning = self._cache.expects(sequence.request.scope)
        sequence.rank = rank(sequence, self._options)
        self.waiting.add(sequence)

    def plan(self) -> tuple[list[Chunk], list[Ended]]:
        """Choose this step's chunks; slots for all of them are held.

        Returns:
            The chunks (empty when nothing can run), and sequences that ended instead.
        """
        now_s = self._clock()
        self._left = set()
        self._closed = False
        self._cache.tick()
        self._loading.take_in()
        step = Step(self._options.step_tokens)
        self._end_unwanted(step, now_s)
        begun = (*self._lanes.prefills(), *self._loading.sequences)
        leaders = Leaders(self._options.shared_min_tokens, begun)
        self._make_way(leaders, now_s)
        rests = self._resting.rests(self.running, self.waiting, now_s)
        self._fill(step, leaders, now_s, batch_rests=rests)
        if rests and not len(step):  # the urgent one cannot go on: nobody is helped by a rest
            self._fill(step, leaders, now_s, batch_rests=False)
        self._run_guesses(step)
        chunks = step.chunks()
        self.idle_wait_s = 0.0 if chunks or step.ended else self._until_next(now_s)
        return chunks, step.ended

    def note_step(self, chunks: list[Chunk], seconds: float) -> None:
        """Learn how long a step took."""
        if any(chunk.start < chunk.sequence.n_prompt for chunk in chunks):
            self._resting.note(sum(chunk.n_rows for chunk in chunks), seconds)

    def commit(self, chunk: Chunk) -> None:
        """Record that a chunk's KV is computed; a prompt's tokens become visible to others at
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
        if sequence.lease is None:
            self.drop(sequence)
        else:
            self._lanes.leave(sequence)
            self._shares.leave(sequence.tenant)

    def drop(self, sequence: Sequence) -> None:
        """Take a sequence out and give back what it holds; nothing more is committed.

        Does nothing when it is not here.
        """
        if sequence.lease is not None:
            self._lanes.discard(sequence)
        elif sequence in self.waiting:
            self._loading.cancel(sequence)
            self.waiting.remove(sequence)
        else:
            return
        self._shares.leave(sequence.tenant)

    def stats(self) -> SchedulerStats:
        """Return a snapshot."""
        oldest = self.waiting.oldest()
        followers = [s for s in self.waiting if follows(s)]
        spared = sum(max(0, self.waiting.n_tokens_of(s) - (s.length - s.fork)) for s in followers)
        return SchedulerStats(
            waiting={priority: self.waiting.counts[priority] for priority in Priority},
            waiting_tokens=self.waiting.n_tokens - spared,
            computed=self._shares.computed,
            running=len(self.running),
            prefilling=len(self._lanes.prefills()),
            following=len(followers),
            loading=len(self._loading),
            oldest_wait_s=0.0 if oldest is None else self._clock() - oldest.submitted_s,
            preemptions=self.n_preemptions,
            overtakes=self._admission.n_overtakes,
            late=self._n_late,
        )

    # -- one step ------------------------------------------------------------------------------

    def _until_next(self, now_s: float) -> float:
        """Seconds until there may be something to do, when all that is here waits for a tier."""
        next_due_s = min((s.due_s for s in self.waiting), default=math.inf)
        return max(0.0, min(POLL_S, next_due_s - now_s))

    def _end_unwanted(self, step: Step, now_s: float) -> None:
        """End what was aborted, and what is late."""
        members = (*self.running, *self.waiting)
        for sequence in [s for s in members if s.aborted or s.due_s <= now_s]:
            if sequence.aborted:
                self.drop(sequence)
                step.end(sequence, FinishReason.ABORT)
                continue
            self.finish(sequence)
            self._n_late += 1
            did = "waited" if sequence.started_s is None else "ran"
            error = f"the deadline of {sequence.request.deadline_s} s passed while it {did}"
            step.end(sequence, FinishReason.DEADLINE, error)

    def _make_way(self, leaders: Leaders, now_s: float) -> None:
        """Let others leave for the first that waits, if it could not start otherwise."""
        first = self._admission.turns.first_waiting()
        if first is None or first.restore is not None:
            return
        others = self._may_leave_for(first, now_s)
        if not others or leaders.find(first, self._lanes.look) is not None:
            return
        for sequence in self._lanes.make_way(first, others):
            self._requeue(sequence)

    def _may_leave_for(self, first: Sequence, now_s: float) -> list[Sequence]:
        """Lower classes; and for an old request of a tenant that has no lane, those of tenants that
        have several."""
        lanes = Counter(s.tenant for s in self.running)
        unfair = now_s - first.submitted_s >= self._options.patience_s and not lanes[first.tenant]
        by_class = self._options.preempt_for_priority
        return [
            s
            for s in self.running
            if s.preemptions < self._options.max_preemptions
            and (
                (by_class and s.priority < first.priority)
                or (unfair and s.priority <= first.priority and lanes[s.tenant] > 1)
            )
        ]

    def _fill(self, step: Step, leaders: Leaders, now_s: float, *, batch_rests: bool) -> None:
        """Tokens of lanes that decode, then prompts."""
        self._run_decodes(step, batch_rests=batch_rests)
        self._admission.run(
            step,
            leaders,
            now_s,
            left=self._left,
            closed=self._closed,
            batch_tokens=0 if batch_rests else self._resting.batch_tokens(len(step)),
        )

    def _run_decodes(self, step: Step, *, batch_rests: bool) -> None:
        """One token of each lane that generates; more where a grammar has forced some."""
        lanes = [
            s
            for s in self.running
            if not s.prefilling and not (batch_rests and s.priority is Priority.BATCH)
        ]
        lanes.sort(key=lambda s: (-s.priority, s.arrival))
        for sequence in lanes:
            if step.budget < 1:
                return
            if sequence.lease is not None and self._hold(sequence, step):
                self._shares.charge(sequence.tenant, step.take(sequence))

    def _hold(self, sequence: Sequence, step: Step) -> bool:
        """Hold slots for all known tokens of a running sequence; False when it had to leave."""
        gone = self._lanes.hold(sequence, step)
        alone = not self.running and not self._loading
        if gone and gone[-1] is sequence and alone:  # it had the pool for itself, and filled it
            self._shares.leave(sequence.tenant)
            step.end(gone.pop(), FinishReason.LENGTH)
        for other in gone:
            self._requeue(other)
            self._closed = True
        return sequence.lease is not None

    def _requeue(self, sequence: Sequence) -> None:
        """A sequence that had to leave waits in front of its line."""
        self._left.add(sequence)
        sequence.matched = sequence.computed
        sequence.computed = 0
        sequence.draft = ()
        sequence.preemptions += 1
        sequence.restore_tried = False
        sequence.rank = rank(sequence, self._options)
        self.waiting.add(sequence)
        self.n_preemptions += 1

    def _run_guesses(self, step: Step) -> None:
        """Spend what is left on guesses: the first to go when tokens or slots are short."""
        for sequence in step.reaching_end():
            draft, sequence.draft = sequence.draft, ()
            n = self._lanes.hold_draft(sequence, min(len(draft), step.budget)) if draft else 0
            if n:
                step.guess(sequence, draft[:n])
                self._shares.charge(sequence.tenant, n)
