"""The disk tier: one file for each block, in a folder that one process owns. No torch here.

A file is written under another name and renamed when it is whole, so a reader never sees half of
one; there is no fsync, because a block that a power failure spoils is found by its checksum and
costs one computation. Whatever goes wrong (disk full, folder gone or read-only) is said once in the
log and counted, and the engine goes on without that block.

    <folder>/kv-1/.lock                                    held while an engine uses the folder
    <folder>/kv-1/<identity>/<namespace tag>/<block>.kv    names are hashes in hex
    <folder>/kv-1/*.part                                   being written
    <folder>/kv-1/gone-*                                   forgotten, about to be deleted
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import filelock

from agentkit_runtime.kv.tiers.disk_file import (
    HEADER_BYTES,
    BlockShape,
    UnreadableBlock,
    header_of,
    read_block,
)
from agentkit_runtime.kv.tiers.disk_index import SUFFIX, DiskEntry, DiskIndex, scan
from agentkit_runtime.kv.tiers.keys import private

_log = logging.getLogger(__name__)

PAUSE_S = 60.0
"""After a write failed, nothing is written for so long."""

_GONE = "gone-"
PART_SUFFIX = ".part"
"""Of files that are not whole yet."""


class DiskStore:
    """The blocks of one engine on disk. For any thread; `disk_open.open_disk` makes one.

    `write`, `read` and `sweep` take as long as the disk does. Nothing else touches it but `forget`,
    which renames one folder, and `forget_blocks`, which deletes files without waiting for the disk.
    """

    def __init__(
        self,
        root: Path,
        shape: BlockShape,
        *,
        max_bytes: int,
        lock: filelock.BaseFileLock,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.shape = shape
        self.on_change: Callable[[bool, tuple[bytes, ...]], None] = _ignore
        """Told (stored, names) in the order in which it happens, by any thread."""
        self.failures = 0
        """Blocks that could not be written or read."""
        self.written = self.written_bytes = 0
        """Blocks that were stored, and their bytes."""
        self.reads = 0
        """Blocks that were read and verified."""
        self.root = root
        self._home = root / shape.identity.hex()
        self.max_bytes = max_bytes
        """Of all files; room is made for more."""
        self._lock = lock
        self._now = now
        self._publishing = threading.Lock()
        """Held while files appear under their names, or vanish from them."""
        self._counting = threading.Lock()
        self._parts = itertools.count()
        self._resume_s = 0.0
        self._warned: set[str] = set()
        self._index = DiskIndex()
        for entry in scan(root, shape.identity, self._file_bytes):
            self._index.add(entry)

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, name: bytes) -> bool:
        return name in self._index

    @property
    def n_bytes(self) -> int:
        """Bytes of all files in the folder."""
        return self._index.n_bytes

    def names(self) -> tuple[bytes, ...]:
        """Names of all blocks."""
        return self._index.names()

    def tag_of(self, name: bytes) -> bytes | None:
        """The namespace tag of a block; None when it is not there."""
        entry = self._index.find(name)
        return None if entry is None else entry.tag

    def touch(self, name: bytes, used_s: float) -> None:
        """Count a block as used at this time (seconds since the epoch)."""
        self._index.touch(name, used_s)

    def write(
        self,
        name: bytes,
        tag: bytes,
        rows: memoryview,
        *,
        used_s: float,
        wanted: Callable[[], bool],
    ) -> bool:
        """Store a block; makes room first. False when it failed or is no longer `wanted`.

        `wanted` is asked last, when no `forget` can come between the answer and the file's
        appearance.
        """
        if self._file_bytes > self.max_bytes or self._now() < self._resume_s:
            return False
        part = self.root / f"{next(self._parts)}{PART_SUFFIX}"
        path = self._home / tag.hex() / f"{name.hex()}{SUFFIX}"
        try:
            self._make_room()
            self._write_part(part, header_of(self.shape.fields(tag, name), rows), rows, used_s)
            with self._publishing:
                if not wanted():
                    part.unlink()
                    return False
                self._rename(part, path)
                self._index.add(DiskEntry(path, self._file_bytes, used_s, tag, name))
                self.on_change(True, (name,))
        except OSError as error:
            self._resume_s = self._now() + PAUSE_S
            self._failed("write to", error)
            with suppress(OSError):
                part.unlink()
            return False
        self.written += 1
        self.written_bytes += self._file_bytes
        return True

    def read(self, name: bytes, into: memoryview) -> bool:
        """Read a block's rows; False when it is not there, not readable or damaged.

        What was in `into` may be overwritten in any case. A block that failed is given up.
        """
        entry = self._index.find(name)
        if entry is None:
            return False
        try:
            read_block(entry.path, self.shape.fields(entry.tag, name), into)
            used_s = self._now()
            self._index.touch(name, used_s)
            with suppress(OSError):  # the time only helps the next process
                os.utime(entry.path, (used_s, used_s))
        except (UnreadableBlock, OSError) as error:
            self._give_up(entry, error)
            return False
        with self._counting:
            self.reads += 1
        return True

    def forget(self, tag: bytes | None) -> list[bytes]:
        """Forget the blocks of a namespace, or all; returns their names. Follow it by `sweep`.

        They are out of reach when this returns, also after a restart.
        """
        folder = self._home if tag is None else self._home / tag.hex()
        with self._publishing:
            names = self._index.forget(tag)
            try:
                folder.rename(self.root / f"{_GONE}{secrets.token_hex(8)}")
            except FileNotFoundError:
                pass  # nothing was ever written
            except OSError as error:
                _log.error("KV blocks in %s could not be deleted, delete them: %s", folder, error)
            if names:
                self.on_change(False, tuple(names))
        return names

    def forget_blocks(self, names: Iterable[bytes]) -> list[bytes]:
        """Forget and delete these blocks, as far as they are there; returns their names."""
        gone: list[bytes] = []
        with self._publishing:
            for name in names:
                entry = self._index.find(name)
                if entry is None or not self._index.remove(entry):
                    continue
                gone.append(name)
                try:
                    entry.path.unlink(missing_ok=True)
                except OSError as error:
                    _log.error("the KV block %s could not be deleted, do it: %s", entry.path, error)
            if gone:
                self.on_change(False, tuple(gone))
        return gone

    def sweep(self) -> None:
        """Delete the files of what was forgotten."""
        for path in self.root.glob(f"{_GONE}*"):
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Let another process use the folder. Idempotent."""
        self._lock.release()

    @property
    def _file_bytes(self) -> int:
        return HEADER_BYTES + self.shape.n_bytes

    def _make_room(self) -> None:
        """Delete the files that were not used for longest until one more fits."""
        while self._index.n_bytes + self._file_bytes > self.max_bytes:
            entry = self._index.pop_oldest()
            if entry is None:
                return
            if entry.name is not None:
                self.on_change(False, (entry.name,))
            entry.path.unlink(missing_ok=True)

    def _write_part(self, part: Path, header: bytes, rows: memoryview, used_s: float) -> None:
        with open(part, "xb", buffering=0, opener=private) as file:
            for data in (memoryview(header), rows):
                done = 0
                while done < len(data):  # a file may take less than it was given
                    done += file.write(data[done:])
        os.utime(part, (used_s, used_s))

    def _rename(self, part: Path, path: Path) -> None:
        try:
            part.rename(path)
        except FileNotFoundError:
            # Not with its parents: a folder that somebody deleted must not come back.
            self._home.mkdir(mode=0o700, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            part.rename(path)

    def _give_up(self, entry: DiskEntry, error: Exception) -> None:
        assert entry.name is not None, "only our own blocks are read"
        with self._publishing:
            if not self._index.remove(entry):  # it was evicted or forgotten meanwhile
                return
            self.on_change(False, (entry.name,))
            if isinstance(error, UnreadableBlock):
                with suppress(OSError):
                    entry.path.unlink()
        self._failed("read from", error)

    def _failed(self, doing: str, error: Exception) -> None:
        with self._counting:
            self.failures += 1
            first = doing not in self._warned
            self._warned.add(doing)
        if first:
            _log.warning(
                "could not %s the KV disk cache in %s (further failures are only counted): %s",
                doing,
                self.root,
                error,
            )


def _ignore(stored: bool, names: tuple[bytes, ...]) -> None:
    """Nobody listens."""
