"""Runs Python programs under limits, in namespaces of their own where the system has them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentkit_tools._errors import Refused
from agentkit_tools._worker import Worker, WorkerFailed

Isolation = Literal["namespaces", "limits"]

_QUESTION = (
    "import json, os, sys; print(json.dumps([sys.executable, os.path.realpath(sys.executable), "
    "sys.prefix, sys.base_prefix, sys.version_info[:2]]))"
)
_STARTS_WITHIN_S = 30.0
_ENV = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    # Libraries for numbers start a thread for each processor, and threads count as processes.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Interpreter:
    """A Python that runs programs: how to start it, and the folders it needs."""

    command: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    def own(cls) -> Interpreter:
        """This process's Python, with the standard library alone."""
        executable = os.path.realpath(sys.executable)
        return cls((executable, "-S", "-s", "-P", "-B", "-X", "utf8"), (sys.base_prefix,))

    @classmethod
    def at(cls, path: str) -> Interpreter:
        """Another Python, with the packages that are installed for it.

        Raises:
            ValueError: it cannot be started, or is older than 3.11.
        """
        try:
            done = subprocess.run(
                [path, "-I", "-c", _QUESTION],
                capture_output=True,
                timeout=_STARTS_WITHIN_S,
                check=True,
                env={},
            )
            executable, real, prefix, base, version = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ValueError(f"{path!r} is no Python that starts: {error}") from None
        if tuple(version) < (3, 11):
            raise ValueError(f"{path!r} is older than Python 3.11")
        folders = dict.fromkeys((prefix, base, os.path.dirname(os.path.dirname(real))))
        if "/" in folders:
            raise ValueError(f"{path!r} has no folder of its own")
        return cls((executable, "-s", "-P", "-B", "-X", "utf8"), tuple(folders))


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    Attributes:
        ended: in words: its exit code, its signal, or the limit it reached.
        files: names and sizes in bytes of the files it left.
        contents: the texts of those that were wanted.
    """

    ended: str
    stdout: str
    stderr: str
    files: tuple[tuple[str, int], ...]
    contents: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """How programs are run.

    Attributes:
        isolation: "namespaces", or "limits" alone.
        memory_bytes: of address space for each process of a program, and (on Linux) of memory for
            all of them together, looked at every so often; files are not in it.
        disk_bytes: for all files with namespaces, for each file without.
        max_processes: processes and threads of a program at the same time.
        max_output_bytes: a program that prints more is stopped.
        kept_bytes: of each output, so much is kept: three quarters of it from the start.
        max_shown_bytes: of all wanted files together.

    Raises:
        ValueError: a limit that is not more than zero.
    """

    isolation: Isolation = "namespaces"
    interpreter: Interpreter = field(default_factory=Interpreter.own)
    memory_bytes: int = 512 * 1024 * 1024
    disk_bytes: int = 64 * 1024 * 1024
    max_processes: int = 16
    max_output_bytes: int = 8 * 1024 * 1024
    kept_bytes: int = 12_000
    max_shown_bytes: int = 10_000
    _worker: Worker = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "disk_bytes", "max_processes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        # The time of the worker is that of a call, with time to start and to clean up.
        worker = Worker(module="_jail", timeout_s=0, max_memory_bytes=0, ends_itself=True)
        object.__setattr__(self, "_worker", worker)

    async def run(self, code: str, *, timeout_s: float, wanted: list[str]) -> Outcome:
        """Run a program until it ends or reaches a limit. None of its processes is left.

        Raises:
            Refused: it could not be started.
        """
        request = {
            "code": code,
            "command": self.interpreter.command,
            "binds": self.interpreter.folders,
            "env": _ENV,
            "isolation": self.isolation,
            "timeout_s": timeout_s,
            "cpu_s": int(timeout_s) + 1,
            "memory_bytes": self.memory_bytes,
            "disk_bytes": self.disk_bytes,
            "max_processes": self.max_processes,
            "max_output_bytes": self.max_output_bytes,
            "kept_bytes": self.kept_bytes,
            "max_shown_bytes": self.max_shown_bytes,
            "wanted": wanted,
        }
        try:
            reply = await self._worker.run(request, timeout_s=timeout_s + _STARTS_WITHIN_S)
        except WorkerFailed as failed:
            raise Refused(f"the program could not be supervised ({failed.reason})") from None
        if "failed" in reply:
            raise Refused(f"the program could not be started: {reply['failed']}")
        return self._outcome(reply, timeout_s)

    async def check(self) -> None:
        """Run an empty program.

        Raises:
            Refused: this system cannot do what is wanted.
        """
        outcome = await self.run("print('ready')", timeout_s=_STARTS_WITHIN_S, wanted=[])
        if outcome.stdout != "ready\n":
            raise Refused(f"an empty program does not run: {outcome.ended}, {outcome.stderr[:500]}")

    def _outcome(self, reply: Mapping[str, Any], timeout_s: float) -> Outcome:
        return Outcome(
            ended=self._ended(reply["limit"], reply["status"], timeout_s),
            stdout=reply["stdout"],
            stderr=reply["stderr"],
            files=tuple((name, size) for name, size in reply["files"]),
            contents=reply["contents"],
        )

    def _ended(self, limit: str | None, status: int | None, timeout_s: float) -> str:
        match limit:
            case "time":
                return f"stopped: it took longer than {timeout_s:g} s"
            case "memory":
                n_mib = self.memory_bytes // 2**20
                return f"stopped: its processes together took more than {n_mib} MiB of memory"
            case "output":
                return f"stopped: it printed more than {self.max_output_bytes} bytes"
        if status is None:
            return "stopped"
        if os.WIFEXITED(status):
            return f"exit code {os.WEXITSTATUS(status)}"
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return f"stopped: it used more than {int(timeout_s) + 1} s of processor time"
        try:
            return f"ended by signal {signal.Signals(number).name}"
        except ValueError:
            return f"ended by signal {number}"
