"""A real `agentkit-runtime serve` in a process of its own, and what the kernel says about it."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

START_S = 120.0
_URL = re.compile(r"http://\S+?(?=/v1|\s|$)")


@dataclass(slots=True)
class ServeProcess:
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    lines: list[str] = field(default_factory=list)
    """What it has said so far."""

    @property
    def rss_mb(self) -> float:
        """Resident memory, in MB (10^6 bytes)."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def n_files(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def n_threads(self) -> int:
        """Threads."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    @property
    def cpu_s(self) -> float:
        """CPU time so far, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self, within_s: float = 60.0) -> int:
        """End it as an operator would; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)


@contextlib.contextmanager
def serve_process(
    *options: str, model: str = "smollm2", environment: dict[str, str] | None = None
) -> Iterator[ServeProcess]:
    """A server on a free port of the loopback, from ready until the block ends.

    Raises:
        RuntimeError: it did not become ready; the message has what it said.
    """
    command = [sys.executable, "-m", "agentkit_runtime", "serve", model, "--port", "0", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    said: queue.Queue[str | None] = queue.Queue()
    lines: list[str] = []
    reader = threading.Thread(target=_read, args=(process, said, lines), daemon=True)
    reader.start()
    try:
        url = _url_of(said, lines)
        _wait_until_ready(url, lines)
        yield ServeProcess(process, url, lines)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
        process.wait()
        reader.join(5)


def _read(process: subprocess.Popen[str], said: queue.Queue[str | None], lines: list[str]) -> None:
    assert process.stdout is not None, "a pipe was asked for"
    for line in process.stdout:
        lines.append(line.rstrip())
        said.put(line)
    said.put(None)


def _url_of(said: queue.Queue[str | None], lines: Sequence[str]) -> str:
    due_s = time.monotonic() + START_S
    while True:
        try:
            line = said.get(timeout=max(0.1, due_s - time.monotonic()))
        except queue.Empty:
            line = None
        if line is None:
            raise RuntimeError("the server did not start:\n" + "\n".join(lines[-20:]))
        if "serving" in line and (found := _URL.search(line)):
            return found.group().rstrip("/")


def _wait_until_ready(url: str, lines: Sequence[str]) -> None:
    due_s = time.monotonic() + START_S
    while time.monotonic() < due_s:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError("the server did not become ready:\n" + "\n".join(lines[-20:]))
