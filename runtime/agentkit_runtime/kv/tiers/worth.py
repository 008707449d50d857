"""What one engine has learned about its own speeds, and what it therefore fetches and saves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Medium
from agentkit_runtime.kv.tiers.breakeven import (
    ComputeCost,
    FetchCost,
    PrefillModel,
    Speed,
    worth_fetching,
    worth_saving,
)

DISK_LATENCY_S = 0.005
"""From a request to the first block's arrival, and until the scheduler looks again."""


class Worth(Protocol):
    """Decides for the tiers. `fetching` and `saving` are asked by the engine's thread."""

    def fetching(self, media: Sequence[Medium], *, cached_tokens: int) -> int:
        """How many leading blocks to fetch, when block i is on `media[i]`."""

    def saving(self, medium: Medium, *, index: int) -> bool:
        """Whether block `index` of a sequence should go to this medium."""

    def note_prefill(self, n_tokens: int, seconds: float, context: int) -> None:
        """See `Tiers.note_prefill`."""

    def note_load(self, n_tokens: int, seconds: float) -> None:
        """Rows were copied from host memory into slots."""

    def note_disk_read(self, n_blocks: int, seconds: float) -> None:
        """A fetch read so many blocks. Called by readers."""


class BreakEven:
    """Fetches what is faster than computing it, saves what may once be; see `breakeven`."""

    def __init__(
        self,
        *,
        bytes_per_token: int,
        host_speed: float,
        disk_speed: float,
        lower_bound: ComputeCost | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with speeds (bytes per second) that were measured, and what computing costs at
        least."""
        self._bytes_per_token = bytes_per_token
        self._lock = threading.Lock()
        self._host = Speed(host_speed, clock)
        self._disk = Speed(disk_speed, clock)
        self._prefill = PrefillModel(lower_bound)

    @property
    def fetch_cost(self) -> FetchCost:
        """What fetching costs now."""
        n_bytes = BLOCK_TOKENS * self._bytes_per_token
        with self._lock:
            return FetchCost(
                self._host.seconds(n_bytes), self._disk.seconds(n_bytes), DISK_LATENCY_S
            )

    def fetching(self, media: Sequence[Medium], *, cached_tokens: int) -> int:
        """See `Worth.fetching`. Nothing while it is not known what computing costs."""
        compute = self._prefill.cost
        if compute is None:
            return 0
        return worth_fetching(
            media, cached_tokens=cached_tokens, compute=compute, fetch=self.fetch_cost
        )

    def saving(self, medium: Medium, *, index: int) -> bool:
        """See `Worth.saving`. Everything while no prefill was measured."""
        compute = self._prefill.cost
        if compute is None or not self._prefill.measured:
            return True
        return worth_saving(medium, index=index, compute=compute, fetch=self.fetch_cost)

    def note_prefill(self, n_tokens: int, seconds: float, context: int) -> None:
        """See `Worth.note_prefill`."""
        self._prefill.observe(n_tokens, seconds, context)

    def note_load(self, n_tokens: int, seconds: float) -> None:
        """See `Worth.note_load`."""
        with self._lock:
            self._host.observe(n_tokens * self._bytes_per_token, seconds)

    def note_disk_read(self, n_blocks: int, seconds: float) -> None:
        """See `Worth.note_disk_read`."""
        with self._lock:
            self._disk.observe(n_blocks * BLOCK_TOKENS * self._bytes_per_token, seconds)
