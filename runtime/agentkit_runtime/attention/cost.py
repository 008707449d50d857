"""What the parts of attention cost on this machine: the gate that decides what lanes share.

A read of `keys` by `rows` takes `call_s + keys * (key_s + rows * pair_s)`: starting a kernel,
moving a key and its value through memory once, and multiplying. Sharing saves the middle term, and
pays a merge. Whether that is worth it differs between a laptop and a GPU by orders of magnitude, so
the numbers are measured when a model is loaded (`measure`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

    @property
    def longest_gathered(self) -> int:
        """A piece with more keys than this is read in place: copying it costs more than a call."""
        return int((self.call_s + self.merge_s) / self.gather_key_s)

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


_ROWS, _LANES, _FEW = 32, 4, 8


def measure(
    probe: Probe, *, clock: Callable[[], float] = time.perf_counter, rounds: int = 5
) -> AttentionCost:
    """Time the parts and solve for the coefficients. Below 150 ms on a laptop.

    The least of `rounds` counts, and rounds run through all parts in turn: another program on the
    machine only ever adds time.
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
    seconds = dict.fromkeys(parts, float("inf"))
    for _ in range(rounds + 1):  # one more: the first touches memory and kernels
        for name, part in parts.items():
            started = clock()
            part()
            seconds[name] = min(seconds[name], clock() - started)
    key_and_pair = (seconds["one"] - seconds["few"]) / (many - _FEW)
    pair = max((seconds["rows"] - seconds["one"]) / (many * (_ROWS - 1)), _FLOOR_S)
    call = seconds["few"] - _FEW * key_and_pair
    merge_row = (seconds["merge"] - seconds["merge_one"]) / (_ROWS - 1)
    per_key = (seconds["gather"] - seconds["gather_few"]) / (_LANES * (gathered - _FEW))
    gather_call = seconds["gather_few"] - _LANES * _FEW * per_key - call
    return AttentionCost(
        call_s=max(call, _FLOOR_S),
        key_s=max(key_and_pair - pair, _FLOOR_S),
        pair_s=pair,
        merge_s=max(seconds["merge_one"] - merge_row, _FLOOR_S),
        merge_row_s=max(merge_row, _FLOOR_S),
        gather_s=max(gather_call, _FLOOR_S),
        # A copy moves at least what a read moves: 0 here would gather everything.
        gather_key_s=max(per_key - key_and_pair, (key_and_pair - pair) / 4, _FLOOR_S),
    )
