"""The sequences that wait: by class and tenant, each in order of rank."""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterator

from agentkit_runtime.sched.sequence import Sequence
from agentkit_runtime.types import Priority

_Entry = tuple[float, int, Sequence]
"""Rank, arrival (which is unique), sequence."""


class WaitingQueue:
    """All waiting sequences. Adding and removing takes time logarithmic in their number."""

    def __init__(self) -> None:
        self._lines: dict[Priority, dict[str, list[_Entry]]] = {p: {} for p in Priority}
        self._members: OrderedDict[int, Sequence] = OrderedDict()
        """By arrival; those looked at last by `next_in_turn` at the end."""
        self._by_age: list[int] = []
        """Heap of arrivals, with those of sequences that have left."""
        self.counts: Counter[Priority] = Counter()
        """Sequences by class."""
        self._tokens: dict[int, int] = {}
        self.n_tokens = 0
        """What they have to compute, as it was known when they came."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Sequence]:
        """All of them, in no useful order."""
        return iter(self._members.values())

    def __contains__(self, sequence: object) -> bool:
        return isinstance(sequence, Sequence) and sequence.arrival in self._members

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence at its rank."""
        self._members[sequence.arrival] = sequence
        self.counts[sequence.priority] += 1
        self._tokens[sequence.arrival] = max(0, sequence.length - sequence.matched)
        self.n_tokens += self._tokens[sequence.arrival]
        self._insert(sequence)
        if len(self._by_age) > 2 * len(self._members) + 64:  # most of it has left
            self._by_age = sorted(self._members)
        else:
            heapq.heappush(self._by_age, sequence.arrival)

    def n_tokens_of(self, sequence: Sequence) -> int:
        """What one that is here has to compute, as it was known when it came."""
        return self._tokens[sequence.arrival]

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out; it must be here."""
        del self._members[sequence.arrival]
        self.counts[sequence.priority] -= 1
        self.n_tokens -= self._tokens.pop(sequence.arrival)
        self._extract(sequence)

    def rerank(self, sequence: Sequence, rank: float) -> None:
        """Move a sequence to another place in its line."""
        if rank != sequence.rank:
            self._extract(sequence)
            sequence.rank = rank
            self._insert(sequence)

    def line(self, priority: Priority, tenant: str, n: int) -> list[Sequence]:
        """The first `n` sequences of a class and tenant, in order."""
        return [entry[2] for entry in self._lines[priority].get(tenant, ())[:n]]

    def tenants(self, priority: Priority) -> list[str]:
        """Tenants with sequences of a class."""
        return list(self._lines[priority])

    def highest(self) -> Priority | None:
        """The highest class of which somebody waits."""
        return max((p for p, lines in self._lines.items() if lines), default=None)

    def oldest(self) -> Sequence | None:
        """The one that was submitted first."""
        heap = self._by_age
        while heap and heap[0] not in self._members:
            heapq.heappop(heap)
        return self._members[heap[0]] if heap else None

    def next_in_turn(self, n: int) -> list[Sequence]:
        """Up to `n` sequences; further calls go on with others until all have had their turn."""
        arrivals = list(itertools.islice(self._members, n))
        for arrival in arrivals:
            self._members.move_to_end(arrival)
        return [self._members[arrival] for arrival in arrivals]

    def _insert(self, sequence: Sequence) -> None:
        line = self._lines[sequence.priority].setdefault(sequence.tenant, [])
        insort(line, (sequence.rank, sequence.arrival, sequence))

    def _extract(self, sequence: Sequence) -> None:
        lines = self._lines[sequence.priority]
        line = lines[sequence.tenant]
        # A two-tuple sorts before every three-tuple that it begins.
        del line[bisect_left(line, (sequence.rank, sequence.arrival))]
        if not line:
            del lines[sequence.tenant]
