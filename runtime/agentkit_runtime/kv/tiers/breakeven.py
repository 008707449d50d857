"""Never slower than recomputing: when a block is worth fetching, and when it is worth saving.

    fetch(n)    = latency + bytes / speed, summed over the media that the blocks are on
    compute(n)  = n * (token + pair * (context + (n - 1) / 2))   seconds; n tokens behind `context`

A run of blocks is fetched when `MARGIN * fetch < compute`. Both sides are learned from what really
happened. Before the first prefill a lower bound stands for `compute`: what the device's matrix
product alone would take. So the blocks of a large model are fetched right after a restart, and none
is that might be slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Medium

MARGIN = 1.5
"""How much faster a fetch must be: predictions are not that exact, and its memory is not free."""

STALE_S = 60.0
"""A speed that nobody observed for so long goes back to the one measured at start: else one slow
read would be believed for ever, since nobody reads at a speed that does not pay."""

_ALPHA = 0.25
_CLAMP = 4.0
_MIN_BYTES = 1 << 18
"""Smaller transfers say more about latency than about speed."""
_FORGETTING = 0.95
_MIN_TOKENS = 64
"""Shorter prefills say more about a step's fixed cost than about a token's."""


@dataclass(frozen=True, slots=True)
class ComputeCost:
    """What computing KV costs."""

    token_s: float
    """Seconds for a token alone."""
    pair_s: float = 0.0
    """Seconds for each token that it attends to."""

    def seconds(self, n_tokens: int, context: int) -> float:
        """Time for `n_tokens` behind `context` others."""
        return n_tokens * (self.token_s + self.pair_s * (context + (n_tokens - 1) / 2))


@dataclass(frozen=True, slots=True)
class FetchCost:
    """What bringing blocks back costs."""

    host_block_s: float
    """Seconds to load a block from host memory into slots; blocks from disk pay it, too."""
    disk_block_s: float
    """Seconds to read and verify a block."""
    disk_latency_s: float
    """Until the first block from disk is there, and the scheduler has seen it."""

    def seconds(self, n_host: int, n_disk: int) -> float:
        """Time for so many blocks of each medium."""
        latency = self.disk_latency_s if n_disk else 0.0
        return latency + (n_host + n_disk) * self.host_block_s + n_disk * self.disk_block_s


def worth_fetching(
    media: Sequence[Medium], *, cached_tokens: int, compute: ComputeCost, fetch: FetchCost
) -> int:
    """How many leading blocks to fetch, when block i is on `media[i]`: those that save most time.

    The gain within a run of one medium is convex in its length, so only the ends of runs are
    compared.
    """
    best, best_gain = 0, 0.0
    n_host = n_disk = 0
    for index, medium in enumerate(media):
        if medium is Medium.DISK:
            n_disk += 1
        else:
            n_host += 1
        n = index + 1
        if n < len(media) and media[n] is medium:
            continue
        gain = compute.seconds(n * BLOCK_TOKENS, cached_tokens)
        gain -= MARGIN * fetch.seconds(n_host, n_disk)
        if gain > best_gain:
            best, best_gain = n, gain
    return best


def worth_saving(medium: Medium, *, index: int, compute: ComputeCost, fetch: FetchCost) -> bool:
    """Whether fetching block `index` of a sequence can ever pay: without latency, it may be one of
    many."""
    seconds = fetch.host_block_s
    if medium is Medium.DISK:
        seconds += fetch.disk_block_s
    return MARGIN * seconds < compute.seconds(BLOCK_TOKENS, index * BLOCK_TOKENS)


class PrefillModel:
    """Learns `ComputeCost` from steps: least squares of their seconds over tokens and pairs.

    Older steps count less, by 5 % with each new one.
    """

    def __init__(self, lower_bound: ComputeCost | None = None) -> None:
        self._lower_bound = lower_bound
        self._nn = self._np = self._pp = self._ns = self._ps = 0.0
        self.measured = False
        """False while all that is known is the lower bound."""

    @property
    def cost(self) -> ComputeCost | None:
        """What is known; None when it is nothing."""
        if not self.measured:
            return self._lower_bound
        alone = ComputeCost(self._ns / self._nn)
        determinant = self._nn * self._pp - self._np * self._np
        if determinant <= 1e-6 * self._nn * self._pp:
            return alone  # all steps had about the same context: their mean is all they tell
        token = (self._ns * self._pp - self._ps * self._np) / determinant
        pair = (self._ps * self._nn - self._ns * self._np) / determinant
        if pair <= 0.0:
            return alone
        if token <= 0.0:
            return ComputeCost(0.0, self._ps / self._pp)
        return ComputeCost(token, pair)

    def observe(self, n_tokens: int, seconds: float, context: int) -> None:
        """A step computed `n_tokens`, each behind `context` others on average."""
        if n_tokens < _MIN_TOKENS or seconds <= 0.0:
            return
        n, pairs = float(n_tokens), float(n_tokens * context)
        self._nn = self._nn * _FORGETTING + n * n
        self._np = self._np * _FORGETTING + n * pairs
        self._pp = self._pp * _FORGETTING + pairs * pairs
        self._ns = self._ns * _FORGETTING + n * seconds
        self._ps = self._ps * _FORGETTING + pairs * seconds
        self.measured = True


class Speed:
    """Bytes per second: measured at start, then a moving average of what is observed."""

    def __init__(self, initial: float, clock: Callable[[], float]) -> None:
        if not initial > 0:
            raise ValueError(f"the initial speed must be positive, got {initial!r} bytes/s")
        self._initial = initial
        self._clock = clock
        self._seconds_per_byte = 1.0 / initial
        self._observed_s = clock()

    def seconds(self, n_bytes: int) -> float:
        """How long so many bytes take."""
        if self._clock() - self._observed_s > STALE_S:
            return n_bytes / self._initial
        return n_bytes * self._seconds_per_byte

    def observe(self, n_bytes: int, seconds: float) -> None:
        """So many bytes took so long. One outlier moves the average by a factor of two at most."""
        if n_bytes < _MIN_BYTES or seconds <= 0.0:
            return
        now = self._seconds_per_byte
        seen = min(max(seconds / n_bytes, now / _CLAMP), now * _CLAMP)
        self._seconds_per_byte = now + _ALPHA * (seen - now)
        self._observed_s = self._clock()
