"""Which block lies where in host memory, and which one leaves next. No torch here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class HostBlock:
    """A place in host memory. It is not given to another block while somebody uses it."""

    name: bytes
    namespace: bytes
    place: int
    """Index of the block in the arena."""
    users: int = 1
    listed: bool = True
    """False once it was forgotten: nobody finds it any more, users may finish."""


class HostIndex:
    """A bounded set of blocks, least recently used first. For any thread."""

    def __init__(self, n_blocks: int) -> None:
        if n_blocks < 1:
            raise ValueError(f"n_blocks must be at least 1, got {n_blocks!r}")
        self.n_blocks = n_blocks
        self._lock = threading.Lock()
        self._blocks: OrderedDict[bytes, HostBlock] = OrderedDict()
        self._names: dict[bytes, set[bytes]] = {}
        self._free: list[int] = []
        self._fresh = 0
        """Places from here on were never used."""

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, name: bytes) -> bool:
        return name in self._blocks

    def names(self) -> tuple[bytes, ...]:
        """All names, least recently used first."""
        with self._lock:
            return tuple(self._blocks)

    def insert(self, name: bytes, namespace: bytes) -> tuple[HostBlock | None, bytes | None]:
        """Take a place for a block that is not there; the caller uses it until `release`.

        Returns:
            The block, or None when all places are in use; and the name of a block that had to
            leave for it.
        """
        with self._lock:
            place, gone = self._place()
            if place is None:
                return None, None
            block = HostBlock(name, namespace, place)
            self._blocks[name] = block
            self._names.setdefault(namespace, set()).add(name)
            return block, gone

    def use(self, name: bytes) -> HostBlock | None:
        """Find a block and keep it in its place until `release`."""
        with self._lock:
            block = self._blocks.get(name)
            if block is not None:
                block.users += 1
            return block

    def release(self, block: HostBlock) -> None:
        """End one use."""
        with self._lock:
            block.users -= 1
            if not block.users and not block.listed:
                self._free.append(block.place)

    def touch(self, names: Iterable[bytes]) -> None:
        """Count these as used just now, the last one most recently; unknown names are ignored."""
        with self._lock:
            for name in names:
                if name in self._blocks:
                    self._blocks.move_to_end(name)

    def drop(self, name: bytes) -> bool:
        """Forget one block; False when it is not there."""
        with self._lock:
            block = self._blocks.get(name)
            if block is not None:
                self._unlist(block)
            return block is not None

    def forget(self, namespace: bytes | None) -> list[bytes]:
        """Forget the blocks of a namespace, or all; returns their names."""
        with self._lock:
            wanted = self._blocks if namespace is None else self._names.get(namespace, ())
            names = list(wanted)
            for name in names:
                self._unlist(self._blocks[name])
            return names

    def check(self, in_use: int) -> None:
        """Raise AssertionError unless the books balance; `in_use`: uses that callers hold now."""
        with self._lock:
            places = [block.place for block in self._blocks.values()]
            assert len(set(places + self._free)) == len(places) + len(self._free)
            forgotten = self._fresh - len(places) - len(self._free)
            assert 0 <= forgotten <= in_use, (forgotten, in_use)
            assert sum(block.users for block in self._blocks.values()) <= in_use
            listed = {name for names in self._names.values() for name in names}
            assert listed == set(self._blocks)
            assert self._fresh <= self.n_blocks

    def _place(self) -> tuple[int | None, bytes | None]:
        if self._free:
            return self._free.pop(), None
        if self._fresh < self.n_blocks:
            self._fresh += 1
            return self._fresh - 1, None
        for _ in range(len(self._blocks)):
            name, block = next(iter(self._blocks.items()))
            if not block.users:
                self._unlist(block)
                return self._free.pop(), name
            self._blocks.move_to_end(name)  # in use is recently used
        return None, None

    def _unlist(self, block: HostBlock) -> None:
        del self._blocks[block.name]
        names = self._names[block.namespace]
        names.discard(block.name)
        if not names:
            del self._names[block.namespace]
        block.listed = False
        if not block.users:
            self._free.append(block.place)
