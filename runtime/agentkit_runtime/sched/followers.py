"""Shared work is computed once: who needs what a neighbour is about to compute waits for it.

N agents that start at once share a cold prefix; each would compute it. A follower waits until its
leader has passed the place where they part, chunk by chunk, and then reads it from the tree. It
waits only for a sequence that runs or loads: when the leader leaves, the first follower that is
looked at leads. Two followers that share more than either does with the leader get there in the
same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from agentkit_runtime.kv.tokens import TOKEN_BYTES, common_prefix, count
from agentkit_runtime.sched.sequence import Sequence

_Head = tuple[bytes, bytes]


class Leaders:
    """The sequences of one step, running or loading, whose work others may wait for."""

    def __init__(self, min_tokens: int, leaders: Iterable[Sequence]) -> None:
        self._min_tokens = min_tokens
        self._by_head: defaultdict[_Head, list[Sequence]] = defaultdict(list)
        for leader in leaders:
            self.add(leader)

    def add(self, leader: Sequence) -> None:
        """A sequence begins to compute its prompt, or to load it."""
        self._by_head[self._head(leader)].append(leader)

    def find(self, candidate: Sequence, cached: Callable[[Sequence], int]) -> Sequence | None:
        """The sequence that `candidate` should wait for, up to its `fork`; None to go ahead.

        Args:
            candidate: a waiting sequence.
            cached: its tokens in the tree; asked only where it matters.
        """
        if candidate.restore is not None:
            return None
        if follows(candidate):
            return candidate.leader
        candidate.leader = None
        for leader in self._by_head.get(self._head(candidate), ()):
            fork = self._shared(candidate, leader)
            # What is less than a few tokens is computed twice rather than waited for.
            if fork - _begun_at(leader) < self._min_tokens or not _brings(leader, fork):
                continue
            if fork > candidate.matched and fork > cached(candidate):
                candidate.leader, candidate.fork = leader, fork
                return leader
        return None

    def _head(self, sequence: Sequence) -> _Head:
        return sequence.request.namespace, bytes(sequence.tokens[: self._min_tokens * TOKEN_BYTES])

    @staticmethod
    def _shared(candidate: Sequence, leader: Sequence) -> int:
        """Tokens that the candidate would read. Prompts are shared at once, answers at the end."""
        common = common_prefix(candidate.tokens, 0, leader.tokens)
        brought = leader.n_prompt
        if leader.restore is not None:
            brought = count(leader.restore.wanted.tokens)
        return min(common, candidate.length - 1, brought)


def follows(sequence: Sequence) -> bool:
    """Whether a waiting sequence waits for its leader, as far as one has looked."""
    return sequence.leader is not None and _brings(sequence.leader, sequence.fork)


def _brings(leader: Sequence, fork: int) -> bool:
    """Whether it computes or loads what is before `fork`."""
    return leader.restore is not None or (leader.lease is not None and leader.computed < fork)


def _begun_at(leader: Sequence) -> int:
    """The tokens that were there before it began."""
    if leader.restore is not None:
        return leader.restore.wanted.cached
    return 0 if leader.lease is None else leader.lease.cached
