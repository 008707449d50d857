"""What the parts of attention cost on this machine: the gate that decides what lanes share.

A read of `keys` by `rows` takes `call_s + keys * (key_s + rows * pair_s)`: starting a kernel,
moving a key and its value through memory once, and multiplying. Sharing saves the middle term, and
pays a merge. Whether that is worth it differs between a laptop and a GPU by orders of magnitude, so
the numbers are measured when a model is loaded (`measure`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

_FLOOR_S = 1e-12
"""No coefficient is smaller: a noisy measurement must not make anything free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCost:
    """Seconds of the parts of one layer's attention. The defaults are those of two laptop cores."""

    call_s: float = 9e-6
    """Starting a kernel."""
    key_s: float = 1.2e-7
    """Reading one key and value, all KV heads; with a coded pool also decoding them."""
    pair_s: float = 3.5e-8
    """One row by one key, all heads."""
    merge_s: float = 1.2e-5
    """Merging two partial results: fixed part,"""
    merge_row_s: float = 4e-7
    """and for each row."""
    gather_s: float = 1.5e-5
    """Reading the short pieces of several lanes in one call instead of in place: fixed part,"""
    gather_key_s: float = 6e-8
    """and for each key, which is copied."""
    most_gathered: int = 256
    """Nothing longer is copied, however cheap copying looked: small copies stay in the cache."""

    @property
    def longest_gathered(self) -> int:
        """A piece with more keys than this is read in place: copying it costs more than a call."""
        return min(int((self.call_s + self.merge_s) / self.gather_key_s), self.most_gathered)

    def read(self, rows: int, keys: int) -> float:
        """Seconds of `rows` reading `keys` that lie side by side."""
        return self.call_s + keys * (self.key_s + rows * self.pair_s)

    def merge(self, rows: int) -> float:
        """Seconds of one merge."""
        return self.merge_s + rows * self.merge_row_s

    def padding_pays(self, padded_keys: int, rows: int) -> bool:
        """True when computing `padded_keys` for nothing is cheaper than one more gathered call."""
        wasted = padded_keys * (self.key_s + self.gather_key_s + rows * self.pair_s)
        return wasted <= self.call_s + self.gather_s + self.merge_s

    def saved_by_sharing(self, lanes: int, rows: int, pieces: Sequence[int]) -> float:
        """Seconds that are saved when `lanes` with `rows` in all read `pieces` (keys each) once.

        Negative when sharing costs more. What multiplying costs is the same either way.
        """
        longest = self.longest_gathered
        keys = sum(pieces)
        calls = sum(1 for piece in pieces if piece > longest)
        short = sum(piece for piece in pieces if piece <= longest)
        # A lane's short pieces join a gathered call that is made anyway; shared ones need one more.
        apart = lanes * (calls * (self.call_s + self.merge_s) + short * self.gather_key_s)
        copies = len(pieces) - calls > 1
        together = max(calls, 1) * self.call_s + self.merge(rows)
        together += copies * (self.gather_s + short * self.gather_key_s)
        return (lanes - 1) * keys * self.key_s + apart - together


DEFAULT_COST = AttentionCost()
CUDA_COST = AttentionCost(
    call_s=1.2e-5,
    key_s=2e-9,
    pair_s=2e-11,
    merge_s=3e-5,
    merge_row_s=1e-9,
    gather_s=2e-5,
    gather_key_s=6e-9,
    most_gathered=16_384,
)
"""Assumed, not measured: a data-centre GPU, 8 KV heads of 128 numbers in half precision. Many lanes
with kernels of their own would wait for the CPU that starts them, so far more is gathered."""


class Probe(Protocol):
    """Runs parts of attention so that they can be timed; each call waits for its end."""

    keys: int
    """Keys that a read can have."""

    def read(self, rows: int, keys: int) -> None:
        """Read `keys` in place by `rows`."""

    def gather(self, lanes: int, keys: int) -> None:
        """Read `keys` scattered keys for each of `lanes` rows in one call."""

    def merge(self, rows: int) -> None:
        """Merge two partial results."""


_ROWS, _LANES, _FEW = 8, 4, 8
_ROUNDS, _MIN_ROUNDS, _BUDGET_S = 12, 4, 0.1
_AGREEMENT = 2.0
"""Two halves of a measurement that differ by more than this factor say nothing."""


def measure(
    probe: Probe,
    *,
    clock: Callable[[], float] = time.perf_counter,
    most_gathered: int = DEFAULT_COST.most_gathered,
) -> AttentionCost | None:
    """Time the parts and solve for the coefficients. About 100 ms, less on a fast machine.

    Every round runs all parts, and the least time of each counts: another program on the machine
    only ever adds time. Returns None when the machine is so busy that there was no time for enough
    rounds, that even and odd rounds disagree, or that more keys took less time.
    """
    many = probe.keys
    gathered = max(_FEW + 1, min(128, many // _LANES))
    parts: dict[str, Callable[[], None]] = {
        "few": lambda: probe.read(1, _FEW),
        "one": lambda: probe.read(1, many),
        "rows": lambda: probe.read(_ROWS, many),
        "gather_few": lambda: probe.gather(_LANES, _FEW),
        "gather": lambda: probe.gather(_LANES, gathered),
        "merge_one": lambda: probe.merge(1),
        "merge": lambda: probe.merge(_ROWS),
    }
    halves = [dict.fromkeys(parts, float("inf")) for _ in range(2)]
    for part in parts.values():  # the first time touches memory and kernels
        part()
    began = clock()
    for index in range(_ROUNDS):
        if clock() - began > _BUDGET_S:
            if index < _MIN_ROUNDS:
                return None
            break
        half = halves[index % 2]
        for name, part in parts.items():
            started = clock()
            part()
            half[name] = min(half[name], clock() - started)
    if any(not _agree(*(half[name] for half in halves)) for name in parts):
        return None
    cost = _solve({name: min(half[name] for half in halves) for name in parts}, many, gathered)
    return cost and replace(cost, most_gathered=most_gathered)


def _agree(a: float, b: float) -> bool:
    return max(a, b) <= _AGREEMENT * min(a, b)


def _solve(seconds: dict[str, float], many: int, gathered: int) -> AttentionCost | None:
    """Coefficients from the time of each part of `measure`; None where they make no sense."""
    key_and_pair = (seconds["one"] - seconds["few"]) / (many - _FEW)
    pair = max((seconds["rows"] - seconds["one"]) / (many * (_ROWS - 1)), _FLOOR_S)
    key = key_and_pair - pair
    if key <= 0:
        return None
    call = seconds["few"] - _FEW * key_and_pair
    merge_row = (seconds["merge"] - seconds["merge_one"]) / (_ROWS - 1)
    per_key = (seconds["gather"] - seconds["gather_few"]) / (_LANES * (gathered - _FEW))
    gather_call = seconds["gather_few"] - _LANES * _FEW * per_key - call
    return AttentionCost(
        call_s=max(call, _FLOOR_S),
        key_s=key,
        pair_s=pair,
        merge_s=max(seconds["merge_one"] - merge_row, _FLOOR_S),
        merge_row_s=max(merge_row, _FLOOR_S),
        gather_s=max(gather_call, _FLOOR_S),
        # A copy moves what a read moves, at least.
        gather_key_s=max(per_key - key_and_pair, key),
    )
