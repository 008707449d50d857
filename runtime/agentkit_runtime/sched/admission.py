"""What a step has left for prompts: those that have begun go on, and waiting ones start."""

from __future__ import annotations

from collections.abc import Callable

from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.sched.followers import Leaders
from agentkit_runtime.sched.lanes import Lanes
from agentkit_runtime.sched.loading import Loading
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.sequence import Sequence
from agentkit_runtime.sched.shares import TenantShares
from agentkit_runtime.sched.step import Step
from agentkit_runtime.sched.turns import Turns, rank
from agentkit_runtime.sched.waiting import WaitingQueue
from agentkit_runtime.types import FinishReason, Priority

LOOKS_PER_STEP = 16
"""Waiting sequences whose cached tokens are counted anew in each step, for their order."""

NO_ROOM_TRIES = 4
"""Waiting sequences that may find no room in one step before nobody else is tried."""


class Admission:
    """Gives prompts their turns. `finish` takes a sequence out of the scheduler."""

    def __init__(
        self,
        cache: KvCache,
        lanes: Lanes,
        waiting: WaitingQueue,
        shares: TenantShares,
        options: SchedulerOptions,
        finish: Callable[[Sequence], None],
    ) -> None:
        self._cache = cache
        self._lanes = lanes
        self._waiting = waiting
        self._shares = shares
        self._options = options
        self._finish = finish
        self.turns = Turns(waiting, shares, options)
        self.loading = Loading(cache)
        self.n_overtakes = 0
        """How often a sequence that found no room saw another start before it."""
        # Of the step that is planned:
        self._step = Step(0)
        self._leaders = Leaders(options.shared_min_tokens, ())
        self._left: set[Sequence] = set()
        self._now_s = 0.0
        self._batch_tokens = 0
        self._no_room: list[Sequence] = []

    def run(
        self,
        step: Step,
        leaders: Leaders,
        now_s: float,
        *,
        left: set[Sequence],
        closed: bool,
        batch_tokens: int,
    ) -> None:
        """Give turns until the step is full or nobody is left.

        Those who have just `left` do not start; nobody does when it is `closed`. The batch class
        gets at most `batch_tokens`.
        """
        self._batch_tokens = batch_tokens
        self._step, self._leaders, self._left, self._now_s = step, leaders, left, now_s
        self._no_room = []
        if self._options.mixed_prefill_tokens is not None and len(step):
            step.limit_prompts(self._options.mixed_prefill_tokens)
        closed = closed or self._lanes.full
        if step.prompt_budget < 1 or (closed and len(step) == len(self._lanes.running)):
            return
        if not closed:
            self._look_around()
        for sequence in self.turns.order(self._lanes.prefills(), now_s, closed=closed):
            if self._most(sequence) == 0:
                continue
            self._serve(sequence)
            if step.prompt_budget < 1:
                return

    def _look_around(self) -> None:
        """See for some of the waiting ones what is cached, or about to be."""
        for sequence in self._waiting.next_in_turn(LOOKS_PER_STEP):
            self._lanes.look(sequence)
            self._waiting.rerank(sequence, rank(sequence, self._options))
            self._leaders.find(sequence, lambda looked_at: looked_at.matched)

    def _serve(self, sequence: Sequence) -> None:
        """Give a sequence its turn, if there is something that it can do."""
        worker, until = sequence, None
        if sequence.lease is None:
            leader = self._leaders.find(sequence, self._lanes.look)
            if leader is not None:  # it is served by what its leader does for both
                worker, until = leader, sequence.fork
                if leader.lease is None:  # which loads
                    return
            elif not self._start(sequence):
                return
        most = self._most(sequence)
        n_tokens = self._step.take(worker, until, most)
        if most is not None:
            self._batch_tokens -= n_tokens
        if n_tokens:
            self._shares.charge(worker.tenant, n_tokens)
            self.turns.served(sequence)

    def _most(self, sequence: Sequence) -> int | None:
        """How many tokens one that is served may take; None: all that the step has.

        By the class of who is served: a batch request may do what somebody else waits for. Who is
        so old that it is his turn is held back by nothing.
        """
        if sequence.priority is not Priority.BATCH or self.turns.is_due(sequence):
            return None
        return max(0, self._batch_tokens)

    def _start(self, sequence: Sequence) -> bool:
        """Admit a waiting sequence; False when it has nothing to run now."""
        if self._lanes.full:
            self.turns.close()
            return False
        if sequence in self._left or self._loads(sequence):
            return False
        if not self._lanes.admit(sequence):
            self._found_no_room(sequence)
            return False
        self._waiting.remove(sequence)
        self._count_overtakes()
        if sequence.cached_tokens is None:
            sequence.cached_tokens = min(sequence.computed, sequence.n_prompt)
            sequence.started_s = self._now_s
        if sequence.computed == sequence.length:  # it only fills the cache, and all is there
            self._finish(sequence)
            self._step.end(sequence, FinishReason.LENGTH)
            return False
        self._leaders.add(sequence)
        return True

    def _loads(self, sequence: Sequence) -> bool:
        """Whether a sequence has to wait for a slower tier, which is asked here."""
        if sequence.restore is not None:
            return True
        if sequence.restore_tried or not self._lanes.has_room(sequence):
            return False
        if len(self.loading) >= self._options.max_restores:
            return True
        if not self.loading.begin(sequence):
            return False
        self._leaders.add(sequence)
        return True

    def _found_no_room(self, sequence: Sequence) -> None:
        if not self._lanes.running and not self.loading:  # it would wait for ever
            error = (
                f"no KV slots for this request: it needs {sequence.length}, and "
                f"{self._cache.available} of {self._cache.n_slots} can be had"
            )
            self._finish(sequence)
            self._step.end(sequence, FinishReason.ERROR, error)
            return
        if sequence not in self._no_room:
            self._no_room.append(sequence)
        if sequence.overtaken >= self._options.max_overtakes or len(self._no_room) >= NO_ROOM_TRIES:
            self.turns.close()

    def _count_overtakes(self) -> None:
        """One has started, others have found no room: nobody is overtaken without end."""
        self.n_overtakes += len(self._no_room)
        for sequence in self._no_room:
            sequence.overtaken += 1
            if sequence.overtaken >= self._options.max_overtakes:
                self.turns.close()
