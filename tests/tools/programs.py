"""What the tests of programs need: whether there are namespaces, and a Python for each case."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentkit_tools._errors import Refused
from agentkit_tools._sandbox import Interpreter, Sandbox


@functools.cache
def has_namespaces() -> bool:
    """Whether this system makes them for this user. Any other failure is one of ours."""
    if sys.platform != "linux":
        return False
    try:
        anyio.run(Sandbox().check)
    except Refused as refused:
        if "not permitted" in str(refused) or "denied" in str(refused):
            return False
        raise
    return True


def interpreter(isolation: str) -> Interpreter:
    """As root, a program without namespaces is another user, who may not read root's Python."""
    if isolation == "namespaces" or os.getuid() != 0 or _all_may_read(Interpreter.own()):
        return Interpreter.own()
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("no Python that every user may run")
    return Interpreter.at(found)


def _all_may_read(own: Interpreter) -> bool:
    path = Path(own.command[0])
    return all(folder.stat().st_mode & 1 for folder in path.parents)


def sleeping(isolation: str, mark: str, first: str = "pass") -> str:
    """Code that turns into a process which does something first, and then sleeps under a mark."""
    python = interpreter(isolation).command[0]
    code = f"import os, time; {first}; time.sleep(1000)"
    return f"os.execv({python!r}, ['x', '-Sc', {code!r}, {mark!r}])"


def marked(mark: str) -> list[int]:
    """Processes whose command line has a mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(folder.name))
    return found


def within(seconds: float, holds: Callable[[], object]) -> bool:
    """Wait until something holds. False: it does not within the time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
