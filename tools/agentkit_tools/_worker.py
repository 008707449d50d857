"""Runs one request in a child process that can be killed, with bounds on what it may take.

Some work cannot be stopped in a thread, and some cannot be kept from eating memory: a `LIKE` with
many wildcards, a page nested a million times. It runs in a child: the request goes to its stdin as
JSON, the reply comes from its stdout as JSON (`_limits.serve` is the other end). Its stdin stays
open until the end of the call. The child is gone when `Worker.run` returns, also on a timeout and
when the caller is cancelled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[1])
_GRACE_S = 2.0
"""A child stops by itself after `timeout_s`; this much later it is killed."""

_ENDS_ITSELF_S = 10.0
_REAP_S = 10.0


class WorkerFailed(Exception):
    """The child gave no usable reply. `reason` is one of "time", "memory or a crash", "size"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Worker:
    """How to run one module of this package, whose `main` serves one request.

    Attributes:
        module: its name in `agentkit_tools`.
        timeout_s: what the child may take, in seconds by the clock and of processor time.
        max_memory_bytes: of address space.
        max_file_bytes: the largest file that the child may write.
        max_reply_bytes: a longer reply is a failure.
        with_packages: also import installed packages, not the standard library alone.
        max_running: children at the same time; further calls wait for a place.
        ends_itself: the child ends soon after its stdin does, and must not be killed before.
        env: the child's environment.
    """

    module: str
    timeout_s: float
    max_memory_bytes: int
    max_file_bytes: int = 0
    max_reply_bytes: int = 4 * 1024 * 1024
    with_packages: bool = False
    max_running: int = 4
    ends_itself: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    _places: anyio.Semaphore = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", anyio.Semaphore(self.max_running))

    async def run(
        self, request: Mapping[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """The child's reply to a request, within `timeout_s` instead of the usual time.

        Raises:
            WorkerFailed: no reply in time or in the space it has.
        """
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        limits = {
            "timeout_s": timeout_s,
            "max_memory_bytes": self.max_memory_bytes,
            "max_file_bytes": self.max_file_bytes,
        }
        data = json.dumps({"limits": limits, "request": request}).encode() + b"\n"
        async with self._places:
            try:
                with anyio.fail_after(timeout_s + _GRACE_S):
                    return _parsed(await self._exchange(data))
            except TimeoutError:
                raise WorkerFailed("time") from None

    async def _exchange(self, data: bytes) -> bytes:
        # Shielded: a start that is cancelled half-way would leave a child that nobody waits for.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(self.env),
                start_new_session=True,
            )
        grace_s = _ENDS_ITSELF_S if self.ends_itself else 0
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            # A child that died at once leaves no reply, which is told below.
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await process.stdin.send(data)
            reply = await self._read(process.stdout)
            grace_s = _ENDS_ITSELF_S
            return reply
        finally:
            await _end(process, grace_s)

    async def _read(self, stream: anyio.abc.ByteReceiveStream) -> bytes:
        reply = bytearray()
        async for part in stream:
            reply += part
            if len(reply) > self.max_reply_bytes:
                raise WorkerFailed("size")
        return bytes(reply)

    def _command(self) -> list[str]:
        # Appended, not inserted: this folder has modules named like those of the standard library.
        start = (
            f"import sys; sys.path.append({_PACKAGE_PARENT!r}); "
            f"from agentkit_tools.{self.module} import main; main()"
        )
        isolated = ["-I"] if self.with_packages else ["-I", "-S"]
        return [sys.executable, *isolated, "-c", start]


async def _end(process: anyio.abc.Process, grace_s: float) -> None:
    """See the child gone, whoever cancels meanwhile: it is killed when its grace is over."""
    with anyio.move_on_after(grace_s, shield=True):
        if grace_s and process.stdin is not None:
            await process.stdin.aclose()
            await process.wait()
    with anyio.move_on_after(_REAP_S, shield=True):
        # Not `process.kill`: that asks for the exit status first, and takes it from the event loop.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await process.aclose()


def _parsed(reply: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(reply)
    except ValueError:
        raise WorkerFailed("memory or a crash") from None
    if not isinstance(parsed, dict):
        raise WorkerFailed("memory or a crash")
    return parsed
