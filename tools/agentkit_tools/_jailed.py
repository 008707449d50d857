"""The program that `_jail` supervises, as a tree of processes, and how a child turns into it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentkit_tools import _orphans, _seccomp

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_NOBODY = 65_534
_READ_BYTES = 65_536
_MAX_SIGNALS = 1024


class Program:
    """The program as a tree of processes. `ended` is readable when a child has ended.

    `secret` are descriptors that no process of the tree gets.
    """

    def __init__(
        self,
        request: Mapping[str, Any],
        root: Path,
        owner: int | None,
        secret: tuple[int, ...],
        *,
        is_isolated: bool,
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
            for fd in secret:
                os.close(fd)
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
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
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
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
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


def prctl(option: int, value: int) -> None:
    """Set a property of this process, on Linux; elsewhere there is none such."""
    if sys.platform == "linux":
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), zero, zero, zero)
