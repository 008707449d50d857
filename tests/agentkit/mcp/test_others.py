"""Servers by others that install quickly: they list and answer through an agent, and stay the same.

The whole list is that of `tests/bench/mcp_servers.py`; its results are in docs/mcp-servers.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "mcp_servers.py"
VARIABLE = "AGENTKIT_OTHER_SERVERS"
NOT_INSTALLED = 3


@pytest.mark.skipif(
    VARIABLE not in os.environ,
    reason=f"installs servers from PyPI: set {VARIABLE} to a folder for them, as CI does",
)
def test_servers_by_others_list_answer_and_keep_their_bytes() -> None:
    command = [sys.executable, str(SCRIPT), "--only", "time,git", "--restarts", "3"]
    done = subprocess.run(
        [*command, "--install", os.environ[VARIABLE]], capture_output=True, text=True, check=False
    )
    if done.returncode == NOT_INSTALLED:
        pytest.skip(f"PyPI is not reached: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stdout + done.stderr
