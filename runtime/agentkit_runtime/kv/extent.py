"""Contiguous ranges of KV slots, and lists of them.

A list of extents says in which slots the tokens of a run lie, in order of position. Such lists are
values: no function here changes its argument, and nobody else should either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Extent(NamedTuple):
    """Slots `[start, start + length)`."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """The first slot behind the extent."""
        return self.start + self.length

    def head(self, n_slots: int) -> Extent:
        """The first `n_slots` slots."""
        return Extent(self.start, n_slots)

    def tail(self, n_slots: int) -> Extent:
        """What is left without the first `n_slots` slots."""
        return Extent(self.start + n_slots, self.length - n_slots)


def total(extents: Iterable[Extent]) -> int:
    """Slots in all extents together."""
    return sum(extent.length for extent in extents)


def append_run(extents: list[Extent], run: Extent) -> None:
    """Append `run` to a list under construction; merges with the last extent where they touch."""
    if not run.length:
        return
    if extents and extents[-1].end == run.start:
        last = extents[-1]
        extents[-1] = Extent(last.start, last.length + run.length)
    else:
        extents.append(run)


def coalesce(*parts: Iterable[Extent]) -> list[Extent]:
    """The parts one after the other, without empty extents, touching neighbours merged."""
    merged: list[Extent] = []
    for part in parts:
        for run in part:
            append_run(merged, run)
    return merged


def split(extents: Sequence[Extent], n_slots: int) -> tuple[list[Extent], list[Extent]]:
    """The first `n_slots` slots, and the rest. Raises ValueError when there are fewer."""
    head: list[Extent] = []
    missing = n_slots
    for index, run in enumerate(extents):
        if missing < run.length:
            tail = [run.tail(missing), *extents[index + 1 :]]
            if missing > 0:
                head.append(run.head(missing))
            return _checked(head, n_slots), tail
        head.append(run)
        missing -= run.length
    return _checked(head, n_slots), []


def take(extents: Sequence[Extent], n_slots: int) -> list[Extent]:
    """The first `n_slots` slots. Raises ValueError when there are fewer."""
    return split(extents, n_slots)[0]


def drop(extents: Sequence[Extent], n_slots: int) -> list[Extent]:
    """All but the first `n_slots` slots. Raises ValueError when there are fewer."""
    return split(extents, n_slots)[1]


def split_last(extents: Sequence[Extent], n_slots: int) -> tuple[list[Extent], list[Extent]]:
    """All but the last `n_slots` slots, and these. Looks at the extents from their end."""
    missing = n_slots
    index = len(extents)
    while missing > 0 and index:
        index -= 1
        missing -= extents[index].length
    if n_slots < 0 or missing > 0:
        raise ValueError(f"cannot take {n_slots!r} slots where {total(extents)!r} are")
    head, tail = list(extents[:index]), list(extents[index:])
    if missing:
        head.append(tail[0].head(-missing))
        tail[0] = tail[0].tail(-missing)
    return head, tail


def differing(mine: Sequence[Extent], canonical: Sequence[Extent]) -> list[Extent]:
    """The slots of `mine` that are not the slot which `canonical` has at the same position.

    Both lists must cover the same number of positions.
    """
    if mine == canonical:
        return []
    if total(mine) != total(canonical):
        raise ValueError(f"{mine!r} and {canonical!r} cover different numbers of positions")
    different: list[Extent] = []
    others = iter(canonical)
    other = Extent(0, 0)
    for run in mine:
        own = run
        while own.length:
            while not other.length:
                other = next(others)
            length = min(own.length, other.length)
            if own.start != other.start:
                append_run(different, own.head(length))
            own, other = own.tail(length), other.tail(length)
    return different


def _checked(head: list[Extent], n_slots: int) -> list[Extent]:
    if n_slots < 0 or total(head) != n_slots:
        raise ValueError(f"cannot take {n_slots!r} slots where {total(head)!r} are")
    return head
