"""Which slots of the pool are free. Knows numbers only, no tensors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.extent import Extent


class SlotAllocator:
    """Hands out slots `0 .. n_slots - 1` in runs as long as possible.

    A run is taken from the smallest free run it fits in, so that large runs stay large. Looking
    up is logarithmic in the number of free runs.
    """

    def __init__(self, n_slots: int) -> None:
        if n_slots < 1:
            raise ValueError(f"n_slots must be at least 1, got {n_slots!r}")
        self.n_slots = n_slots
        self.free_slots = 0
        """Slots that nobody has."""
        # The same free runs three times: start -> length, in order of place, in order of size.
        self._length: dict[int, int] = {}
        self._starts: list[int] = []
        self._sizes: list[tuple[int, int]] = []
        self._add(Extent(0, n_slots))

    def free_runs(self) -> Iterator[Extent]:
        """The free runs in order of place; no two of them touch."""
        return (Extent(start, self._length[start]) for start in self._starts)

    def alloc(self, n_slots: int, *, reserve: int = 0) -> list[Extent]:
        """Take `n_slots` slots: one extent if any free run is long enough, else as few as possible.

        Up to `reserve` slots more are taken when they follow the extent and are free. Raises
        OutOfSlots, and takes nothing, when fewer than `n_slots` are free.
        """
        if n_slots < 0 or reserve < 0:
            raise ValueError(f"cannot allocate {n_slots!r} slots with reserve {reserve!r}")
        if n_slots > self.free_slots:
            raise OutOfSlots(f"{n_slots} slots wanted, {self.free_slots} of {self.n_slots} free")
        taken: list[Extent] = []
        missing = n_slots
        while missing > 0:
            run = self._best_fit(missing + reserve)
            taken.append(self._take_front(run, min(run.length, missing + reserve)))
            missing -= taken[-1].length
        return taken

    def alloc_at_end_of(self, extent: Extent, n_slots: int) -> Extent:
        """Take up to `n_slots` slots right behind `extent`; as many as are free, perhaps none."""
        if n_slots < 0:
            raise ValueError(f"cannot allocate {n_slots!r} slots")
        free_there = self._length.get(extent.end, 0)
        run = Extent(extent.end, free_there)
        wanted = min(free_there, n_slots)
        return self._take_front(run, wanted) if wanted else run.head(0)

    def free(self, extents: Iterable[Extent]) -> None:
        """Give slots back. Raises ValueError, and frees nothing, when one is free already."""
        runs = sorted(extent for extent in extents if extent.length)
        previous = Extent(0, 0)
        for run in runs:
            if run.start < 0 or run.length < 0 or run.end > self.n_slots:
                raise ValueError(f"{run!r} is not inside the pool of {self.n_slots} slots")
            if run.start < previous.end or self._overlaps_free(run):
                raise ValueError(f"double free: slots of {run!r} are free already")
            previous = run
        for run in runs:
            self._merge(run)

    def _best_fit(self, n_slots: int) -> Extent:
        """The smallest free run of at least `n_slots` slots, else the largest of all."""
        index = bisect_left(self._sizes, (n_slots, 0))
        length, start = self._sizes[min(index, len(self._sizes) - 1)]
        return Extent(start, length)

    def _take_front(self, run: Extent, n_slots: int) -> Extent:
        self._remove(run)
        if n_slots < run.length:
            self._add(run.tail(n_slots))
        return run.head(n_slots)

    def _overlaps_free(self, run: Extent) -> bool:
        index = bisect_right(self._starts, run.start)
        if index and self._starts[index - 1] + self._length[self._starts[index - 1]] > run.start:
            return True
        return index < len(self._starts) and self._starts[index] < run.end

    def _merge(self, run: Extent) -> None:
        index = bisect_left(self._starts, run.start)
        start, length = run
        if index < len(self._starts) and self._starts[index] == run.end:
            behind = Extent(run.end, self._length[run.end])
            self._remove(behind)
            length += behind.length
        if index:
            before = Extent(self._starts[index - 1], self._length[self._starts[index - 1]])
            if before.end == run.start:
                self._remove(before)
                start, length = before.start, length + before.length
        self._add(Extent(start, length))

    def _add(self, run: Extent) -> None:
        self._length[run.start] = run.length
        insort(self._starts, run.start)
        insort(self._sizes, (run.length, run.start))
        self.free_slots += run.length

    def _remove(self, run: Extent) -> None:
        del self._length[run.start]
        del self._starts[bisect_left(self._starts, run.start)]
        del self._sizes[bisect_left(self._sizes, (run.length, run.start))]
        self.free_slots -= run.length
