"""A step that failed: whether for want of memory, and how to find out for whom.

One request must not take down those that were computed with it, and a step that does not fit into
memory must not take down anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from agentkit_runtime.sched.sequence import Chunk

MAX_SPLITS = 6
"""How often a failed step is parted: up to 64 parts. More would not be a step that is too large, or
one bad request, but a device that is broken."""

_CPU_ALLOCATOR = "DefaultCPUAllocator"
"""Begins torch's message when the CPU has no memory left: it raises a plain RuntimeError."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step failed, without the error itself: that would keep the step's tensors alive."""

    text: str
    out_of_memory: bool

    @classmethod
    def of(cls, error: Exception) -> StepFailure:
        """Describe an error."""
        memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
            isinstance(error, RuntimeError) and _CPU_ALLOCATOR in str(error)
        )
        return cls(f"{type(error).__name__}: {error}", memory)

    def parts(self, chunks: Sequence[Chunk]) -> tuple[Sequence[Chunk], ...]:
        """Two parts of the step to be tried one after the other; none when it cannot be parted.

        For want of memory it gets smaller, token by token; any other failure is somebody's, so
        requests are told apart.
        """
        if self.out_of_memory:
            return halves(chunks) if sum(chunk.n_rows for chunk in chunks) > 1 else ()
        sequences = list({id(chunk.sequence): chunk.sequence for chunk in chunks}.values())
        first = {id(sequence) for sequence in sequences[: len(sequences) // 2]}
        if not first:
            return ()
        return (
            [chunk for chunk in chunks if id(chunk.sequence) in first],
            [chunk for chunk in chunks if id(chunk.sequence) not in first],
        )


def halves(chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """Split a step of at least two rows near the middle, a chunk in two where that is needed.

    Both parts are smaller than the step. One token cannot be parted from the guesses behind it: of
    such a chunk alone the guesses are given up.
    """
    if len(chunks) == 1 and chunks[0].n == 1:
        return [replace(chunks[0], draft=())], []
    middle = sum(chunk.n_rows for chunk in chunks) // 2
    first: list[Chunk] = []
    second: list[Chunk] = []
    for chunk in chunks:
        if chunk.n_rows <= middle or (chunk.n == 1 and not first):
            first.append(chunk)
        elif middle and chunk.n > 1:
            n = min(middle, chunk.n - 1)
            first.append(Chunk(chunk.sequence, chunk.start, n))
            second.append(Chunk(chunk.sequence, chunk.start + n, chunk.n - n, chunk.draft))
        else:
            second.append(chunk)
        middle = max(0, middle - chunk.n_rows)
    return first, second
