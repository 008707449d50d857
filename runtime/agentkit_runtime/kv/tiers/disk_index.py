"""Which files of the disk tier are there, how large they are, and which one leaves next.

Rebuilt from names, sizes and times at start; no file is opened. Files of other models in the same
folder are never read, but count: the bound is for the folder, and what nobody used for longest
leaves first, whose ever it is.
"""

from __future__ import annotations

import heapq
import itertools
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".kv"
"""Of a block's file: `<identity>/<namespace tag>/<block name>.kv`, each 32 bytes in hex."""

_FOLDER = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[0-9a-f]{64}\.kv")
_SPARE_STAMPS = 1_000
"""So many outdated entries of the heap are not worth a clean-up."""


@dataclass(slots=True, eq=False)
class DiskEntry:
    """One file."""

    path: Path
    n_bytes: int
    used_s: float
    """When it was last used; seconds since the epoch."""
    tag: bytes = b""
    name: bytes | None = None
    """None: not ours to read."""
    listed: bool = False


class DiskIndex:
    """The files of one folder. For any thread; nothing here touches the disk."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ours: dict[bytes, DiskEntry] = {}
        self._tags: dict[bytes, set[bytes]] = {}
        self._oldest: list[tuple[float, int, DiskEntry]] = []
        self._stamps = itertools.count()
        self._n_listed = 0
        self.n_bytes = 0
        """Of all files, ours and others'."""

    def __len__(self) -> int:
        return len(self._ours)

    def __contains__(self, name: bytes) -> bool:
        return name in self._ours

    def names(self) -> tuple[bytes, ...]:
        """Names of all blocks that are ours to read."""
        with self._lock:
            return tuple(self._ours)

    def find(self, name: bytes) -> DiskEntry | None:
        """The file of a block."""
        return self._ours.get(name)

    def add(self, entry: DiskEntry) -> None:
        """List a file; replaces one of the same name."""
        with self._lock:
            if entry.name is not None:
                self._unlist(self._ours.get(entry.name))
                self._ours[entry.name] = entry
                self._tags.setdefault(entry.tag, set()).add(entry.name)
            entry.listed = True
            self._n_listed += 1
            self.n_bytes += entry.n_bytes
            self._push(entry)

    def touch(self, name: bytes, used_s: float) -> None:
        """Count a block as used at this time; an unknown name is ignored."""
        with self._lock:
            entry = self._ours.get(name)
            if entry is not None and used_s > entry.used_s:
                entry.used_s = used_s
                self._push(entry)

    def remove(self, entry: DiskEntry) -> bool:
        """Take a file off the list; False when it is not listed any more."""
        with self._lock:
            return self._unlist(entry)

    def pop_oldest(self) -> DiskEntry | None:
        """Take the file off the list that was not used for longest."""
        with self._lock:
            while self._oldest:
                used_s, _, entry = heapq.heappop(self._oldest)
                if entry.used_s == used_s and self._unlist(entry):
                    return entry
            return None

    def forget(self, tag: bytes | None) -> list[bytes]:
        """Take the blocks of a namespace, or all of ours, off the list; returns their names."""
        with self._lock:
            wanted: Iterable[bytes] = self._ours if tag is None else self._tags.get(tag, ())
            names = list(wanted)
            for name in names:
                self._unlist(self._ours[name])
            return names

    def _push(self, entry: DiskEntry) -> None:
        if len(self._oldest) > 2 * self._n_listed + _SPARE_STAMPS:
            self._oldest = [item for item in self._oldest if item[2].listed]
            self._oldest = [item for item in self._oldest if item[0] == item[2].used_s]
            heapq.heapify(self._oldest)
        heapq.heappush(self._oldest, (entry.used_s, next(self._stamps), entry))

    def _unlist(self, entry: DiskEntry | None) -> bool:
        if entry is None or not entry.listed:
            return False
        entry.listed = False
        self._n_listed -= 1
        self.n_bytes -= entry.n_bytes
        if entry.name is not None:
            del self._ours[entry.name]
            names = self._tags[entry.tag]
            names.discard(entry.name)
            if not names:
                del self._tags[entry.tag]
        return True


def scan(root: Path, identity: bytes, file_bytes: int) -> Iterator[DiskEntry]:
    """Find the files of a folder. Removes empty folders, and files of ours with a wrong length.

    Raises OSError when the folder cannot be listed.
    """
    for model in _folders(root):
        ours = model.name == identity.hex()
        for space in _folders(model):
            n_files = 0
            for file in os.scandir(space.path):
                if not _FILE.fullmatch(file.name) or not file.is_file(follow_symlinks=False):
                    continue
                about = file.stat(follow_symlinks=False)
                if ours and about.st_size != file_bytes:
                    Path(file.path).unlink()
                    continue
                n_files += 1
                entry = DiskEntry(Path(file.path), about.st_size, about.st_mtime)
                if ours:
                    entry.tag = bytes.fromhex(space.name)
                    entry.name = bytes.fromhex(file.name.removesuffix(SUFFIX))
                yield entry
            if not n_files:
                with suppress(OSError):  # it holds something that is not ours
                    os.rmdir(space.path)


def _folders(folder: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [e for e in entries if _FOLDER.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
