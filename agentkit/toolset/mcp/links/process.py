"""A server's process: in a group of its own, watched, and always ended with all its children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentkit.toolset.mcp.links.orphans import MARK, CrashGuard, kill_marked, new_mark
from agentkit.toolset.threads import run_in_thread

_EXIT_GRACE_S = 1.0
"""After its stdin closed a server may take this long to exit by itself, as MCP asks of it."""

_TERMINATE_GRACE_S = 0.5
"""Between SIGTERM and SIGKILL."""

_REAP_S = 2.0
"""How long a killed process may take to be seen dead; only an unkillable one uses it up."""


class ServerProcess:
    """A running server process with pipes. Made by `start`, ended by `stop`."""

    def __init__(self, process: subprocess.Process, protocol: _Protocol, mark: str) -> None:
        self._process = process
        self._protocol = protocol
        self._mark = mark
        self._guard = CrashGuard.start(process.pid, mark)

    @classmethod
    async def start(
        cls, command: Sequence[str], env: Mapping[str, str], cwd: Path | None
    ) -> ServerProcess:
        """Start the command without a shell.

        Raises:
            OSError: the command cannot be started.
        """
        loop = asyncio.get_running_loop()
        mark = new_mark()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**env, MARK: mark},
            cwd=cwd,
            # A session of its own: the whole group can be killed, and a Ctrl-C in the terminal does
            # not reach the server before its client has finished.
            start_new_session=True,
        )
        return cls(subprocess.Process(transport, protocol, loop), protocol, mark)

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""
        return self._process.pid

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """The pipe to the server."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        """The pipe of its messages."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """The pipe of its log."""
        assert self._process.stderr is not None
        return self._process.stderr

    @property
    def exit_code(self) -> int | None:
        """The exit code, or minus the signal number; None while the process runs."""
        return self._process.returncode

    async def wait_exit(self) -> None:
        """Wait for the end of the process itself.

        Unlike `Process.wait` not for the end of its pipes, which a grandchild may hold open.
        """
        await self._protocol.exited.wait()

    async def stop(self, hurry: asyncio.Event) -> None:
        """End the process and its whole group, and free the pipes. Bounded in time.

        The server is asked politely first (stdin closes, then SIGTERM) unless `hurry` is set;
        SIGKILL goes to the group in any case, for what the server left behind, and to what had left
        the group but has its mark.
        """
        try:
            self.stdin.close()
            if not await self._exits_within(_EXIT_GRACE_S, hurry):
                self._signal_group(_signal("SIGTERM"))
                await self._exits_within(_TERMINATE_GRACE_S, hurry)
        finally:
            self._signal_group(_signal("SIGKILL"))
            try:
                # It looks at every process of the system.
                await run_in_thread(lambda: kill_marked(self._mark), "find-strays")
            finally:
                if self._guard is not None:
                    self._guard.release()
                await self._exits_within(_REAP_S, None)
                self._close_pipes()

    async def _exits_within(self, limit_s: float, hurry: asyncio.Event | None) -> bool:
        if hurry is not None and hurry.is_set():
            return self.exit_code is not None
        events = [self._protocol.exited] if hurry is None else [self._protocol.exited, hurry]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self.exit_code is not None

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                # No process groups to kill there: the children of the server are its own business.
                self._process.send_signal(number)
            else:
                os.killpg(self.pid, number)

    def _close_pipes(self) -> None:
        """Close the transport, which otherwise waits for pipes that a stray process may hold."""
        with contextlib.suppress(PermissionError, ProcessLookupError):
            self._protocol.close_transport()


class _Protocol(subprocess.SubprocessStreamProtocol):
    """asyncio's own stream protocol, which also tells when the process has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=2**16, loop=loop)
        self.exited = asyncio.Event()
        self._subprocess: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._subprocess = transport
        super().connection_made(transport)

    def process_exited(self) -> None:
        self.exited.set()
        super().process_exited()

    def close_transport(self) -> None:
        if self._subprocess is not None:
            self._subprocess.close()


def _signal(name: str) -> int:
    """The signal of this name; where there is none (Windows has no SIGKILL), the one that ends."""
    return int(getattr(signal, name, signal.SIGTERM))
