"""What memory the processes below this one hold together, from Linux's /proc.

What processes share, as after a fork, counts once. Not counted are files in memory, and the
kernel's own memory, such as the buffers of pipes.
"""

from __future__ import annotations

import contextlib
import os

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_READ_BYTES = 65_536
_COUNTED = ("Pss_Anon", "Pss_Shmem")


class Memory:
    """Looks at the memory of this process's descendants. Without /proc there is nothing to see.

    Made before this process loses sight of /proc: what it needs stays open, as `descriptor`.
    """

    def __init__(self) -> None:
        self.descriptor: int | None = None
        with contextlib.suppress(OSError):
            self.descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def exceeds(self, max_bytes: int) -> bool:
        """Whether it is more. A cheap look comes first, which sees what is shared many times."""
        if self.descriptor is None:
            return False
        pids = self._descendants()
        if sum(map(self._resident_bytes, pids)) <= max_bytes:
            return False
        return sum(map(self._own_bytes, pids)) > max_bytes

    def _descendants(self) -> list[str]:
        found: list[str] = []
        waiting = [str(os.getpid())]
        while waiting:
            pid = waiting.pop()
            for thread in self._listed(f"{pid}/task"):
                children = self._read(f"{pid}/task/{thread}/children").split()
                found += children
                waiting += children
        return found

    def _resident_bytes(self, pid: str) -> int:
        """Anonymous and shared memory and mapped files, all of it."""
        fields = self._read(f"{pid}/statm").split()
        return int(fields[1]) * _PAGE_BYTES if fields else 0

    def _own_bytes(self, pid: str) -> int:
        """Anonymous and shared memory, divided by the number of those who share it."""
        parts = [line.split() for line in self._read(f"{pid}/smaps_rollup").splitlines()[1:]]
        sizes = {part[0].rstrip(":"): int(part[1]) * 1024 for part in parts}
        if sizes.keys() >= set(_COUNTED):
            return sum(sizes[name] for name in _COUNTED)
        # It may not be looked into, or the system is old: memory that is shared counts for each.
        fields = self._read(f"{pid}/statm").split()
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES if fields else 0

    def _listed(self, path: str) -> list[str]:
        with contextlib.suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.descriptor)
            try:
                return os.listdir(folder)
            finally:
                os.close(folder)
        return []

    def _read(self, path: str) -> str:
        """A file of /proc; empty when its process is gone."""
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDONLY, dir_fd=self.descriptor)
            try:
                return os.read(file, _READ_BYTES).decode()
            finally:
                os.close(file)
        return ""
