"""A step that did not fit into memory: how to tell, and how to make it smaller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agentkit_runtime.sched.sequence import Chunk

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


def halves(chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """Split a step of at least two tokens in the middle, a chunk in two where that is needed."""
    middle = sum(chunk.n_rows for chunk in chunks) // 2
    first: list[Chunk] = []
    second: list[Chunk] = []
    for chunk in chunks:
        if chunk.n_rows <= middle:
            first.append(chunk)
        elif middle and chunk.n > 1:
            n = min(middle, chunk.n - 1)
            first.append(Chunk(chunk.sequence, chunk.start, n))
            second.append(Chunk(chunk.sequence, chunk.start + n, chunk.n - n, chunk.draft))
        else:
            second.append(chunk)
        middle = max(0, middle - chunk.n_rows)
    return first, second
