"""No process of a server outlives it, nor us: not after SIGKILL, and not if it has left its group.

Each server gets a mark in its environment, which its children inherit. What has the mark when the
server has ended is killed (Linux, where /proc tells). For the case that we cannot do that
ourselves any more, a small shell waits beside each server for the end of a pipe that only we hold
open. What survives: a process that has cleared its environment, runs as another user, or was
started by a service on the server's behalf; and, while a copy of us that was made by `fork` without
`exec` lives on, all of it, since the copy holds the pipe too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

MARK = "AGENTKIT_MCP_SERVER"
"""The variable in the environment of a server that holds its mark."""

_PROC = Path("/proc")

_SHELL = "/bin/sh"

_WATCH = """
trap '' HUP INT QUIT TERM
read -r _
kill -KILL "-$1"
for file in $(grep -ls "$2" /proc/[0-9]*/environ 2>/dev/null); do
    file=${file#/proc/}
    kill -KILL "${file%/environ}"
done
""".strip()
"""`read` returns when the pipe has ended. $1 is the process group, $2 the mark."""

_MAX_PASSES = 5
"""How often to look for processes that were started while others were killed."""


def new_mark() -> str:
    """Return a mark that no other process has."""
    return uuid.uuid4().hex


def kill_marked(mark: str) -> None:
    """Kill all processes with this mark in their environment, where the system tells."""
    if not sys.platform.startswith("linux"):
        return
    wanted = f"{MARK}={mark}".encode()
    for _ in range(_MAX_PASSES):
        found = [pid for pid in _process_ids() if wanted in _environment(pid).split(b"\0")]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def _environment(pid: int) -> bytes:
    """The environment that a process was started with; empty if it is gone, or another user's."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


class CrashGuard:
    """A process that kills a server's group, and what has its mark, when we end without doing so.

    It costs about a millisecond to start, and a small shell's memory. Where there is no shell
    there is no guard: a server then sees only that its stdin has ended.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls, group_id: int, mark: str) -> CrashGuard | None:
        """Start a guard for a process group; None if the system has no shell to do it."""
        if sys.platform == "win32":
            return None
        try:
            process = subprocess.Popen(
                [_SHELL, "-c", _WATCH, "guard", str(group_id), f"{MARK}={mark}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                cwd="/",
                # A session of its own: what ends us must not end it.
                start_new_session=True,
            )
        except OSError:
            return None
        return cls(process)

    def release(self) -> None:
        """End the guard: everything it would kill is gone. Calling it again does nothing."""
        # Nothing it does is worth waiting for; killed, it is gone within a moment.
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
