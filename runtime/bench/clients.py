"""Clients that others wrote, in sessions with tools against a real server.

    python clients.py --install DIR    # a virtual environment for them, once (about 300 MB)
    python clients.py --venv DIR       # serve the bundled model and run all sessions

Prints a table. Each session is a program in `clients/` that a user of that client could have
written; it fails when something is not as it should be.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from serve_process import serve_process

PACKAGES = ("llm", "pydantic-ai-slim[openai]", "langchain-openai", "openai-agents")
SESSIONS = Path(__file__).parent / "clients"
BOUND_S = 300.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a session."""

    name: str
    passed: bool
    seconds: float
    said: str


def install(folder: Path) -> None:
    """Make the virtual environment."""
    venv.create(folder, with_pip=True, clear=False)
    subprocess.run([folder / "bin/pip", "install", "--quiet", *PACKAGES], check=True)


def versions(folder: Path) -> str:
    """What is installed of `PACKAGES`."""
    listed = subprocess.run(
        [folder / "bin/pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = {package.partition("[")[0] for package in PACKAGES}
    return ", ".join(line for line in listed if line.partition("==")[0] in names)


def sessions(folder: Path, url: str) -> Iterator[Outcome]:
    """Run them one after the other."""
    with tempfile.TemporaryDirectory() as empty:
        shell = [str(SESSIONS / "with_llm.sh"), url, str(folder / "bin/llm"), empty]
        yield _run("llm", ["sh", *shell])
    for program in sorted(SESSIONS.glob("with_*.py")):
        yield _run(
            program.stem.removeprefix("with_"), [str(folder / "bin/python"), str(program), url]
        )


def _run(name: str, command: list[str]) -> Outcome:
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    said = done.stdout.strip() if done.returncode == 0 else done.stderr.strip()[-400:]
    return Outcome(name, done.returncode == 0, time.monotonic() - began, said)


def _rows(outcome: Outcome) -> Iterator[str]:
    mark = "passed" if outcome.passed else "FAILED"
    first, *more = outcome.said.splitlines() or [""]
    yield f"{outcome.name:16} {mark} {outcome.seconds:6.1f} s  {first}"
    for line in more:
        yield f"{'':34}{line}"


def main() -> int:
    """Exit code 1 when a session failed."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--install", type=Path, help="make this virtual environment, and use it")
    arguments.add_argument("--venv", type=Path, help="use this virtual environment")
    given = arguments.parse_args()
    folder = given.install or given.venv
    if folder is None:
        arguments.error("give --install DIR or --venv DIR")
    if given.install is not None:
        install(folder)
    with serve_process("--slots", "16384") as server:
        outcomes = list(sessions(folder, f"{server.url}/v1"))
    sys.stdout.write(f"{versions(folder)}\n")
    sys.stdout.writelines(f"{line}\n" for outcome in outcomes for line in _rows(outcome))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
