"""Processes found in /proc, for `_jail` without namespaces; without /proc none are found."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_GIVES_UP_AFTER_S = 5.0
_PAUSE_S = 0.005


def kill_descendants() -> None:
    """Kill all descendants of this process, which must be their subreaper, and wait for them.

    They are stopped first: what is stopped can start no others while the rest is looked for.
    """
    deadline = time.monotonic() + _GIVES_UP_AFTER_S
    while _has_children() and time.monotonic() < deadline:
        stopped: set[int] = set()
        while fresh := descendants() - stopped:
            _signal(fresh, signal.SIGSTOP)
            stopped |= fresh
        _signal(stopped, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def count_threads_of(uid: int) -> int | None:
    """How many threads a user runs, for a limit that counts them all. None: nobody knows."""
    count: int | None = None
    for folder in _processes():
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == uid:
                count = (count or 0) + len(os.listdir(folder / "task"))
    return count


def _has_children() -> bool:
    """Whether there are any, after those that have ended are let go."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def descendants() -> set[int]:
    """The process ids of all that this process started, and of what those started."""
    parents: dict[int, int] = {}
    for folder in _processes():
        with contextlib.suppress(OSError, ValueError):
            # "pid (name) state parent ...": a name may hold brackets and blanks.
            rest = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents[int(folder.name)] = int(rest[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _processes() -> list[Path]:
    with contextlib.suppress(OSError):
        return [Path("/proc", name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
