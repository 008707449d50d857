"""In which order prefills, begun or waiting, get what a step has left for prompts.

First the oldest of old ones when it is its turn; then class by class; in a class the tenant that
has had least; of one tenant what has begun, then what waits, in order of rank.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.sequence import Sequence
from agentkit_runtime.sched.shares import TenantShares
from agentkit_runtime.sched.waiting import WaitingQueue
from agentkit_runtime.types import Priority


class Turns:
    """Gives turns step by step, and remembers how long the oldest has been passed over."""

    def __init__(
        self, waiting: WaitingQueue, shares: TenantShares, options: SchedulerOptions
    ) -> None:
        self._waiting = waiting
        self._shares = shares
        self._options = options
        self._old: Sequence | None = None
        self._since_old = 0
        self._closed = False

    def first_waiting(self) -> Sequence | None:
        """Whose turn it would be to start, ages apart."""
        priority = self._waiting.highest()
        if priority is None:
            return None
        tenant = min(self._waiting.tenants(priority), key=lambda t: (self._shares.of(t), t))
        return self._waiting.line(priority, tenant, 1)[0]

    def is_due(self, sequence: Sequence) -> bool:
        """Whether it has waited for so long that nobody goes before it."""
        return sequence is self._old and self._since_old >= self._options.turns_per_old

    def close(self) -> None:
        """Nobody else may start in this step."""
        self._closed = True

    def order(
        self, prefills: list[Sequence], now_s: float, *, closed: bool = False
    ) -> Iterator[Sequence]:
        """Give turns until nobody is left; one sequence may come twice.

        Whoever is served must be reported and charged before the next one is taken. When `closed`,
        nobody may start.
        """
        self._closed = closed
        self._old = self._oldest(prefills, now_s)
        if self._old is not None and self._since_old >= self._options.turns_per_old:
            yield self._old
        begun: defaultdict[Priority, defaultdict[str, list[Sequence]]]
        begun = defaultdict(lambda: defaultdict(list))
        for sequence in prefills:
            begun[sequence.priority][sequence.tenant].append(sequence)
        n_left = self._options.max_scan
        for priority in sorted(Priority, reverse=True):
            for sequence in self._fairly(priority, begun[priority], n_left):
                yield sequence
                n_left -= sequence.lease is None
                if n_left < 1:
                    self.close()

    def served(self, sequence: Sequence) -> None:
        """A sequence has had a turn."""
        if self._old is None or sequence is self._old:
            self._since_old = 0
        else:
            self._since_old += 1

    def _fairly(
        self, priority: Priority, begun: dict[str, list[Sequence]], n_waiting: int
    ) -> Iterator[Sequence]:
        """The sequences of a class; before each, the tenants are compared anew."""
        tenants = {*begun, *(() if self._closed else self._waiting.tenants(priority))}
        lines: dict[str, Iterator[Sequence]] = {}
        heap = [(self._shares.of(tenant), tenant) for tenant in tenants]
        heapq.heapify(heap)
        while heap:
            _, tenant = heapq.heappop(heap)
            if tenant not in lines:
                lines[tenant] = self._line(priority, tenant, begun.get(tenant, []), n_waiting)
            sequence = next(lines[tenant], None)
            if sequence is not None:
                yield sequence
                heapq.heappush(heap, (self._shares.of(tenant), tenant))

    def _line(
        self, priority: Priority, tenant: str, begun: list[Sequence], n_waiting: int
    ) -> Iterator[Sequence]:
        yield from begun
        if self._closed:
            return
        for sequence in self._waiting.line(priority, tenant, n_waiting):
            if self._closed:
                return
            yield sequence

    def _oldest(self, prefills: list[Sequence], now_s: float) -> Sequence | None:
        oldest = self._waiting.oldest()
        candidates = prefills if oldest is None else [*prefills, oldest]
        first = min(candidates, key=lambda s: s.arrival, default=None)
        if first is None or now_s - first.submitted_s < self._options.patience_s:
            return None
        return first


def rank(sequence: Sequence, options: SchedulerOptions) -> float:
    """Place among requests of the same class and tenant: a time in seconds, the smallest first.

    It does not depend on the present: a cached token is worth a fixed head start, so a request is
    overtaken only by those that come within the largest possible head start behind it.
    """
    if sequence.preemptions:  # it has been first before
        return -math.inf
    came = sequence.submitted_s - sequence.matched * options.cached_token_s
    if sequence.returning:
        came -= options.returning_s
    if options.deadline_lead_s is not None:
        came = min(came, sequence.due_s - options.deadline_lead_s)
    return came
