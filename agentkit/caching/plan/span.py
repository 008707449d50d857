"""How far to write, and how much of it with the longest lifetime: the cheapest by expectation.

A request that reads up to A, has its last long-lived mark at B and its last mark at C pays for
A read, B - A written long, C - B written short, and the rest as plain input. More marks inside
cost nothing. So the choice is one pair (B, C), and it is made by price: what this request pays,
and what those pay that are expected after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentkit.caching.plan.lives import Lives
from agentkit.caching.plan.needs import Need
from agentkit.caching.plan.prompt import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What is written: blocks behind the hit, up to `last`; those up to `long` for longest."""

    long: int | None = None
    last: int | None = None
    pings: bool = False
    """Whether the run's entry had better be kept alive by reads, should the gap be slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What marks of the user leave to choose."""

    least_last: int = -1
    """The last block that they write in any case."""
    least_long: int = -1
    """The last block that they write with the longest lifetime."""
    long_before: int | None = None
    """A shorter mark of theirs stands here: longer ones must be before it."""
    one_mark: bool = False
    """Only one more mark can be set."""


def choose_span(
    prompt: Prompt,
    needs: Sequence[Need],
    lives: Lives,
    *,
    hit: int | None,
    bounds: Bounds,
    also_long: Iterable[int] = (),
) -> Span:
    """Return the cheapest pair. Among equals the shortest: what is not written cannot be lost.

    `also_long`: live entries of the longest lifetime that the request does not read itself.
    """
    held = _Held(prompt, needs, lives, hit, also_long)
    start = -1 if hit is None else hit
    best, best_cost = (start, start), None
    for last in _last_ends(needs, start, bounds):
        for long in _long_ends(prompt, needs, start, last, lives, bounds):
            cost = held.cost(last, long)
            if best_cost is None or cost < best_cost:
                best, best_cost = (last, long), cost
    last, long = best
    return Span(
        long=long if long > start else None,
        last=last if last > start else None,
        pings=held.wants_pings(last, long),
    )


def _last_ends(needs: Sequence[Need], start: int, bounds: Bounds) -> list[int]:
    """Where the written part may end, shortest first; `start` is nowhere."""
    least = max(start, bounds.least_last)
    return sorted({least} | {need.at for need in needs if need.at > least})


def _long_ends(
    prompt: Prompt, needs: Sequence[Need], start: int, last: int, lives: Lives, bounds: Bounds
) -> list[int]:
    """Where the long-lived part may end, shortest first; `start` is nowhere.

    The first block behind the hit is among them: a long-lived entry there holds the whole prefix
    before it too, and only the block itself is paid for.
    """
    least = max(start, bounds.least_long)
    if last <= start or not lives.differ:
        return [least]
    places = {need.at for need in needs} | {last}
    places |= set(next(([i] for i in range(start + 1, last) if prompt.anchors[i] == i), []))
    if bounds.one_mark:
        places = {last}
    before = len(prompt.blocks) if bounds.long_before is None else bounds.long_before
    return [least, *sorted(place for place in places if least < place <= last and place < before)]


class _Held:
    """What a request pays and leaves behind, for any pair of ends."""

    def __init__(
        self,
        prompt: Prompt,
        needs: Sequence[Need],
        lives: Lives,
        hit: int | None,
        also_long: Iterable[int],
    ) -> None:
        self._lives = lives
        self._needs = needs
        self._prompt = prompt
        self._start = -1 if hit is None else hit
        self._hit_tokens = prompt.length(hit)
        long_ttl = lives.long.ttl
        there = {need.at for need in needs if prompt.entries[need.at] is not None}
        if hit is not None:
            there.add(hit)
        long = set(also_long) | {
            index
            for index in there
            if (entry := prompt.entries[index]) is not None and entry.ttl is long_ttl
        }
        there |= long
        self._entries = [_deepest(prompt, there, need.at) for need in needs]
        self._long = [_deepest(prompt, long, need.at) for need in needs]

    def cost(self, last: int, long: int) -> Decimal:
        """Return the expected cost, in tokens of plain input."""
        lives, tokens, hit = self._lives, self._prompt.tokens, self._hit_tokens
        long_end = tokens[long] if long > self._start else hit
        last_end = max(long_end, tokens[last] if last > self._start else hit)
        total = (
            hit * lives.read
            + (long_end - hit) * lives.long.write
            + (last_end - long_end) * lives.short.write
            + (self._prompt.total - last_end)
        )
        for need, entry, long_entry in self._after(last, long):
            total += need.reads * need.cost(entry, long_entry, lives)
        return total

    def wants_pings(self, last: int, long: int) -> bool:
        """Whether the run's entry is best kept alive by reads."""
        return any(
            need.is_run and need.wants_pings(entry, long_entry, self._lives)
            for need, entry, long_entry in self._after(last, long)
        )

    def _after(self, last: int, long: int) -> list[tuple[Need, int, int]]:
        """For each need the longest entries that it will find: of any lifetime, of the longest."""
        tokens = self._prompt.tokens
        found = []
        for need, entry, long_entry in zip(self._needs, self._entries, self._long, strict=True):
            # A mark stands at each need's own end, as far as it is written.
            for end in (long, last):
                place = end if end < need.at else need.at
                if place > self._start:
                    length = tokens[place]
                    entry = length if length > entry else entry
                    if place <= long and length > long_entry:
                        long_entry = length
            found.append((need, entry, long_entry))
        return found


def _deepest(prompt: Prompt, places: Iterable[int], at: int) -> int:
    return max((prompt.tokens[place] for place in places if place <= at), default=0)
