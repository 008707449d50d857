"""Commands that talk to a server, or keep its keys, begin at once."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from typer.testing import CliRunner

from agentkit_runtime.cli.commands import app

ROOT = Path(__file__).parents[3]

LIGHT = (
    *("agentkit_runtime.cli", "agentkit_runtime.admin_client", "agentkit_runtime.benching"),
    *("agentkit_runtime.cli.top_view", "agentkit_runtime.tenancy.store"),
)


def test_only_serving_needs_the_heavy_packages() -> None:
    code = f"import sys, {', '.join(LIGHT)}; print(sys.modules.keys() & {{'torch', 'fastapi'}})"
    path = os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "set()\n"


def test_it_says_its_version() -> None:
    done = CliRunner().invoke(app, ["--version"])

    assert done.stdout == f"agentkit-runtime {version('agentkit-radix')}\n"
