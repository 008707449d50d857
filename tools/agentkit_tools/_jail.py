"""The supervisor of one program for `python`: starts it, watches it, and leaves nothing of it.

A child process of the server (see `_worker`). It gets the request as a line on stdin, which stays
open: when it ends, the server has lost interest or is gone, and the program is killed. The reply
goes to stdout. With namespaces there is a process between the two, number 1 of the program's world,
whose end is the end of all processes in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentkit_tools import _namespaces
from agentkit_tools._jailed import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, Program, prctl
from agentkit_tools._made_files import made_files
from agentkit_tools._memory import Memory
from agentkit_tools._scratch import scratch_folder

_OWN_UID_BASE = 0x7000_0000
_READ_BYTES = 65_536
_DRAIN_S = 1.0
_LOOKS_EVERY_S = 0.05
"""At the memory of all processes together. A look takes a tenth of a millisecond for a few."""


def main() -> None:
    """Run the program of the request on stdin."""
    request = json.loads(sys.stdin.buffer.readline())["request"]
    # What the program prints must not look like an answer, so nobody else writes to stdout.
    try:
        reply = _supervised(request)
    except OSError as error:
        reply = {"failed": f"{error.strerror or error}"}
    sys.stdout.write(json.dumps(reply))
    sys.stdout.flush()


@dataclass(slots=True)
class _Stream:
    """One output of the program: all is read, the start and the end are kept."""

    max_kept: int
    n_bytes: int = 0
    start: bytearray = field(default_factory=bytearray)
    end: bytearray = field(default_factory=bytearray)

    def take(self, data: bytes) -> None:
        self.n_bytes += len(data)
        room = self.max_kept * 3 // 4 - len(self.start)
        self.start += data[:room]
        self.end += data[max(room, 0) :]
        del self.end[: -(self.max_kept // 4)]

    def shown(self) -> str:
        n_left_out = self.n_bytes - len(self.start) - len(self.end)
        middle = b"\n[... %d bytes left out ...]\n" % n_left_out if n_left_out else b""
        return bytes(self.start + middle + self.end).decode("utf-8", "replace")


def _supervised(request: Mapping[str, Any]) -> dict[str, Any]:
    is_isolated = request["isolation"] == "namespaces"
    memory = Memory()
    owner = _OWN_UID_BASE + os.getpid() if os.getuid() == 0 else None
    if is_isolated:
        _namespaces.enter(request["binds"], size_bytes=request["disk_bytes"], owner=owner)
        return _watched(request, Path(_namespaces.JAIL), owner, memory, is_isolated=True)
    # Not dumpable: the program, which may run as the same user, cannot look into this process.
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    with scratch_folder() as (folder, lock):
        os.mkdir(f"{folder}/work", 0o700)
        os.mkdir(f"{folder}/tmp", 0o700)
        if owner is not None:
            os.chmod(folder, 0o711)
            for name in ("work", "tmp"):
                os.chown(f"{folder}/{name}", owner, owner)
        return _watched(request, Path(folder), owner, memory, lock, is_isolated=False)


def _watched(
    request: Mapping[str, Any],
    root: Path,
    owner: int | None,
    memory: Memory,
    *secret: int,
    is_isolated: bool,
) -> dict[str, Any]:
    (root / "main.py").write_text(request["code"], encoding="utf-8", newline="")
    if memory.descriptor is not None:
        secret = (*secret, memory.descriptor)
    program = Program(request, root, owner, secret, is_isolated=is_isolated)
    streams = {
        program.out: _Stream(request["kept_bytes"]),
        program.err: _Stream(request["kept_bytes"]),
    }
    limit = _watch(program, streams, memory, request)
    program.end()
    _drain(streams)
    if said := program.setup_error():
        return {"failed": said}
    files, contents = made_files(root / "work", request["wanted"], request["max_shown_bytes"])
    out, err = streams.values()
    return {
        "limit": limit,
        "status": program.status,
        "stdout": _shown(out, root, is_isolated),
        "stderr": _shown(err, root, is_isolated),
        "files": files,
        "contents": contents,
    }


def _shown(stream: _Stream, root: Path, is_isolated: bool) -> str:
    """The text; without the random name of the folder, so that equal runs have equal results."""
    return stream.shown() if is_isolated else stream.shown().replace(str(root), "")


def _watch(
    program: Program, streams: dict[int, _Stream], memory: Memory, request: Mapping[str, Any]
) -> str | None:
    """Read what the program prints until it ends or reaches a limit, which is returned."""
    deadline = time.monotonic() + request["timeout_s"]
    next_look = 0.0
    with selectors.DefaultSelector() as selector:
        for fd in (0, program.ended, *streams):
            selector.register(fd, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if time.monotonic() >= next_look:
                if memory.exceeds(request["memory_bytes"]):
                    return "memory"
                next_look = time.monotonic() + _LOOKS_EVERY_S
            ready = [key.fd for key, _ in selector.select(min(left, _LOOKS_EVERY_S))]
            for fd in ready:
                if fd in streams:
                    data = os.read(fd, _READ_BYTES)
                    streams[fd].take(data)
                    if not data:
                        selector.unregister(fd)
            if sum(stream.n_bytes for stream in streams.values()) > request["max_output_bytes"]:
                return "output"
            if 0 in ready:
                return "cancelled"
            if program.ended in ready and program.has_ended():
                return None
    return "time"


def _drain(streams: dict[int, _Stream]) -> None:
    """What is left in the pipes; without namespaces a survivor may keep them open."""
    deadline = time.monotonic() + _DRAIN_S
    for fd, stream in streams.items():
        os.set_blocking(fd, False)
        with contextlib.suppress(BlockingIOError):
            while time.monotonic() < deadline and (data := os.read(fd, _READ_BYTES)):
                stream.take(data)
