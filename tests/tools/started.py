"""Servers as programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOLS_FOLDER = str(Path(__file__).parents[2] / "tools")


def assert_ends_with_stdin(name: str, *arguments: str) -> None:
    """A server whose stdin has ended ends in order, and has written nothing."""
    done = subprocess.run(
        [sys.executable, "-m", f"agentkit_tools.{name}", *arguments],
        input=b"",
        capture_output=True,
        timeout=60,
        env={"PYTHONPATH": TOOLS_FOLDER, "PATH": os.environ["PATH"]},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
