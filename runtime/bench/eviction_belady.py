"""The best that any cache could do that knows all later requests, for blocks of one size.

A request needs all of its blocks in the cache at once, and what is not in use may be dropped at any
time. Each block that is used again is then an interval between two uses, and to keep it takes one
block of room in every request in between. Most intervals are kept by dropping, whenever there are
too many, the one that ends last (Belady). A block is never used without those before it in its
prompt, so none of a path is wanted later than its end, and dropping from the end makes no holes.
(Of blocks wanted by the same request any may be counted as dropped: the number is the same.) For
unit blocks this is the exact optimum of a prefix cache; no policy for its leaves can be above it.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Sequence

_NEVER = 1 << 40


def optimum(requests: Iterable[array[int]], n_blocks: int) -> float:
    """Share of all blocks that are found. Blocks are numbered by themselves and all before them."""
    paths = list(requests)
    later = next_uses(paths)
    kept: dict[int, int] = {}
    """Block and the request that wants it next, for what is in the cache."""
    farthest: list[tuple[int, int]] = []
    found = wanted = 0
    for path, uses in zip(paths, later, strict=True):
        wanted += len(path)
        found += sum(1 for block in path if kept.pop(block, None) is not None)
        _drop(kept, farthest, max(0, n_blocks - len(path)))  # the request itself takes the rest
        for block, use in zip(path, uses, strict=True):
            if use < _NEVER:
                kept[block] = use
                heapq.heappush(farthest, (-use, block))
        _drop(kept, farthest, n_blocks)
    return found / wanted if wanted else 0.0


def next_uses(paths: Sequence[array[int]]) -> list[list[int]]:
    """For each block of each request, the number of the request that uses it next."""
    upcoming: dict[int, int] = {}
    uses: list[list[int]] = []
    for number in range(len(paths) - 1, -1, -1):
        path = paths[number]
        uses.append([upcoming.get(block, _NEVER) for block in path])
        upcoming.update(dict.fromkeys(path, number))
    return uses[::-1]


def _drop(kept: dict[int, int], farthest: list[tuple[int, int]], n_blocks: int) -> None:
    """Drop what is wanted last until `n_blocks` are left."""
    while len(kept) > n_blocks:
        use, block = heapq.heappop(farthest)
        if kept.get(block) == -use:
            del kept[block]
