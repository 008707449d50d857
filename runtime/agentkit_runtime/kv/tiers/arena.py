"""The memory of the host tier: one allocation, cut into blocks.

One allocation, because it is bounded by construction, never fragments, and on CUDA can be pinned
once: copies from pinned memory run beside the kernels. On the CPU the operating system gives real
memory only to blocks that were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS


class HostArena:
    """`n_blocks` blocks of rows. `put` and `take` are for the engine's thread only."""

    def __init__(self, n_blocks: int, bytes_per_token: int, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device=device)  # type: ignore[no-untyped-call]
        self._copied: dict[int, torch.cuda.Event] = {}
        self._memory = torch.empty(
            (n_blocks, BLOCK_TOKENS, bytes_per_token),
            dtype=torch.uint8,
            pin_memory=self._stream is not None,
        )

    def put(self, blocks: Sequence[int], rows: Tensor) -> None:
        """Copy `rows` [len(blocks) * BLOCK_TOKENS, bytes_per_token] into these blocks.

        On CUDA this only queues the copy, behind all that the current stream was given so far: the
        kernel that made `rows`, and loads that still read what these blocks held before.
        """
        if self._stream is None:
            self._copy(blocks, rows)
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            self._copy(blocks, rows)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(self._stream)
        rows.record_stream(self._stream)  # its memory must not be reused before the copy ran
        self._copied.update(dict.fromkeys(blocks, done))

    def take(self, blocks: Sequence[int]) -> Iterator[Tensor]:
        """The rows of these blocks, in order: a view for each run of neighbours.

        On CUDA the current stream waits for their copies. Whoever reads them in that stream need
        not wait.
        """
        for first, n in _runs(blocks):
            if self._stream is not None:
                for block in range(first, first + n):
                    torch.cuda.current_stream(self._device).wait_event(self._copied[block])
            yield self._memory[first : first + n].flatten(0, 1)

    def bytes_of(self, block: int) -> memoryview:
        """The bytes of one block, without a copy, once they are there. For any thread."""
        if self._stream is not None:
            self._copied[block].synchronize()
        return self._memory[block].numpy().data.cast("B")

    def _copy(self, blocks: Sequence[int], rows: Tensor) -> None:
        begin = 0
        for first, n in _runs(blocks):
            end = begin + n * BLOCK_TOKENS
            target = self._memory[first : first + n].flatten(0, 1)
            target.copy_(rows[begin:end], non_blocking=True)
            begin = end


def _runs(blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First block and length of each run of neighbours, in order."""
    begin = 0
    for index in range(1, len(blocks) + 1):
        if index == len(blocks) or blocks[index] != blocks[index - 1] + 1:
            yield blocks[begin], index - begin
            begin = index
