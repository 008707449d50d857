"""Requests under way at one provider, and which of them another had better wait for.

An entry can be read only once the response that writes it has begun. Requests that share a prefix
nobody has cached and start together would all pay for it; so one goes ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True, eq=False)
class Flight:
    """One request between its start and the beginning of its response."""

    keys: Sequence[bytes]
    """Keys of its prefixes, block by block."""
    writes: frozenset[int] | None
    """Blocks behind which it writes an entry; None: behind each."""
    loop: asyncio.AbstractEventLoop | None = None
    """Where it runs: only there can it be waited for."""
    failed: bool = False
    """Whether the provider failed before its answer began."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the response begins, or the request is over."""


class Flights:
    """All of one model's requests whose responses have not begun."""

    def __init__(self) -> None:
        self._waiting: list[Flight] = []

    def start(self, flight: Flight) -> None:
        """A request is about to be sent."""
        self._waiting.append(flight)

    def begin(self, flight: Flight) -> None:
        """Its response began, or it is over. Idempotent."""
        flight.begun.set()
        if flight in self._waiting:
            self._waiting.remove(flight)

    def leader(
        self,
        keys: Sequence[bytes],
        n_readable: int,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> tuple[Flight, int] | None:
        """Return the request that writes most of this prompt, and how many blocks; or None.

        `n_readable`: blocks that can be read already; less than that is not waited for. `loop`: the
        asker's own.
        """
        best: tuple[Flight, int] | None = None
        for flight in self._waiting:
            if flight.loop is not loop:
                continue
            end = _written_end(flight, keys)
            if end > n_readable and (best is None or end > best[1]):
                best = (flight, end)
        return best


def _written_end(flight: Flight, keys: Sequence[bytes]) -> int:
    """Return how many leading blocks of `keys` the request writes into one entry."""
    if flight.writes is None:
        return _common(flight.keys, keys)
    for index in sorted(flight.writes, reverse=True):
        if index < len(keys) and index < len(flight.keys) and flight.keys[index] == keys[index]:
            return index + 1
    return 0


def _common(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """Return how many leading keys are equal. Where one is, all before it are."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[middle - 1] == second[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
