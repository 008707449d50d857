"""The supervisor of one program for `python`: starts it, watches it, and leaves nothing of it.

A child process of the server (see `_worker`). It gets the request as a line on stdin, which stays
open: when it ends, the server has lost interest or is gone, and the program is killed. The reply
goes to stdout. With namespaces there is a process between the two, number 1 of the program's world,
whose end is the end of all processes in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentkit_tools import _namespaces, _orphans, _seccomp
from agentkit_tools._made_files import made_files

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_OWN_UID_BASE = 0x7000_0000
_NOBODY = 65_534
_READ_BYTES = 65_536
_DRAIN_S = 1.0
_MAX_SIGNALS = 1024


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
    owner = _OWN_UID_BASE + os.getpid() if os.getuid() == 0 else None
    if is_isolated:
        _namespaces.enter(request["binds"], size_bytes=request["disk_bytes"], owner=owner)
        return _watched(request, Path(_namespaces.JAIL), owner, is_isolated=True)
    # Not dumpable: the program, which may run as the same user, cannot look into this process.
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    folder = tempfile.mkdtemp(prefix="python-")
    try:
        os.mkdir(f"{folder}/work", 0o700)
        os.mkdir(f"{folder}/tmp", 0o700)
        if owner is not None:
            os.chmod(folder, 0o711)
            for name in ("work", "tmp"):
                os.chown(f"{folder}/{name}", owner, owner)
        return _watched(request, Path(folder), owner, is_isolated=False)
    finally:
        # `rm` copes with folders that are nested more deeply than Python's own functions.
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)


def _watched(
    request: Mapping[str, Any], root: Path, owner: int | None, *, is_isolated: bool
) -> dict[str, Any]:
    (root / "main.py").write_text(request["code"], encoding="utf-8", newline="")
    program = _Program(request, root, owner, is_isolated=is_isolated)
    streams = {
        program.out: _Stream(request["kept_bytes"]),
        program.err: _Stream(request["kept_bytes"]),
    }
    limit = _watch(program, streams, request)
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
    program: _Program, streams: dict[int, _Stream], request: Mapping[str, Any]
) -> str | None:
    """Read what the program prints until it ends or reaches a limit, which is returned."""
    deadline = time.monotonic() + request["timeout_s"]
    with selectors.DefaultSelector() as selector:
        for fd in (0, program.ended, *streams):
            selector.register(fd, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            ready = [key.fd for key, _ in selector.select(left)]
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


class _Program:
    """The program as a tree of processes. `ended` is readable when a child has ended."""

    def __init__(
        self, request: Mapping[str, Any], root: Path, owner: int | None, *, is_isolated: bool
    ) -> None:
        self._request = request
        self._root = root
        self._owner = owner
        self._is_isolated = is_isolated
        self.status: int | None = None
        self.ended, wake = os.pipe()
        for fd in (self.ended, wake):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self._setup, setup = os.pipe()
        self._result, result = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(out, err, setup, result)
        for fd in (out, err, setup, result):
            os.close(fd)

    def has_ended(self) -> bool:
        """Whether the program, or the process that stands for it, is gone."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.ended, _READ_BYTES)
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            self._pid = 0
            self.status = None if self._is_isolated else status
        return bool(pid)

    def end(self) -> None:
        """Kill all that is left, and wait until it is gone."""
        if self._is_isolated:
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            said = os.read(self._result, 16)
            self.status = int(said) if said else None
            return
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
        _orphans.kill_descendants()

    def setup_error(self) -> str:
        """Why the program was not started; empty when it was."""
        os.set_blocking(self._setup, False)
        try:
            return os.read(self._setup, 1000).decode("utf-8", "replace")
        except BlockingIOError:
            return ""

    def _become(self, out: int, err: int, setup: int, result: int) -> None:
        """In the child: turn into the program, or into process 1 of its world."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.setsid()
            if self._is_isolated and (pid := os.fork()):
                for fd in (out, err, setup):
                    os.close(fd)
                _reap(pid, result)
            self._start(out, err)
        except BaseException as error:
            os.write(setup, f"{error}".encode()[:1000] or b"unknown")
        finally:
            os._exit(127)

    def _start(self, out: int, err: int) -> None:
        nothing = os.open(
            "/dev/null" if not self._is_isolated else f"{self._root}/dev/null", os.O_RDONLY
        )
        for source, target in ((nothing, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        folder = self._root
        if self._is_isolated:
            os.chroot(self._root)
            folder = Path("/")
        os.chdir(folder / "work")
        if self._owner is not None:
            _become_user(self._owner)
            # A change of user takes this back.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if self._is_isolated:
            _seccomp.confine()
        else:
            with contextlib.suppress(OSError):
                _seccomp.refuse_lasting()
        _limit(self._request, self._is_isolated)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        command = [*self._request["command"], str(folder / "main.py")]
        variables = {
            **self._request["env"],
            "HOME": str(folder / "work"),
            "TMPDIR": str(folder / "tmp"),
        }
        os.execve(command[0], command, variables)


def _reap(program: int, result: int) -> None:
    """Process 1: wait for whoever ends; when the program does, so does the whole world."""
    while True:
        pid, status = os.wait()
        if pid == program:
            os.write(result, b"%d" % status)
            os._exit(0)


def _become_user(uid: int) -> None:
    os.setgroups([])
    for user in (uid, _NOBODY):
        try:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError:
            # This namespace of users has no number so high.
            if user == _NOBODY:
                raise
        else:
            return


def _limit(request: Mapping[str, Any], is_isolated: bool) -> None:
    # With namespaces those that stand before the program may count: this one, and process 1.
    n_others = 2 if is_isolated else _orphans.count_threads_of(os.getuid())
    wanted = {
        "RLIMIT_CPU": request["cpu_s"],
        "RLIMIT_FSIZE": request["disk_bytes"],
        "RLIMIT_NOFILE": 64,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 65_536,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": _MAX_SIGNALS,
        "RLIMIT_AS": request["memory_bytes"],
    }
    if n_others is not None:
        wanted["RLIMIT_NPROC"] = n_others + request["max_processes"]
    for name, value in wanted.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        value = (
            value if hard == resource.RLIM_INFINITY else min(value, hard - (name == "RLIMIT_CPU"))
        )
        # macOS refuses limits of address space.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, value + (name == "RLIMIT_CPU")))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), zero, zero, zero)
