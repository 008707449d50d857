"""Kills a run at random points, in SQLite and in PostgreSQL, and checks what resumes reach.

    python tests/bench/crash_points.py [--points 100] [--seed 1] [--only sqlite|postgresql]

A run of 12 turns, with tools and five runs of subagents, is killed by SIGKILL at different points
of the about 950 that it has: before and after each statement and commit, each acknowledged save,
each event of the model, each begin and end of a tool. Half of the processes that go on with it are
killed as well. Exits with an error where a resume reaches another end, asks the model with other
bytes, runs a finished call again, or loses something.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.agentkit.store import postgres
from tests.agentkit.store.crash_check import crashes


def main() -> None:
    """Run it and print a line for each database."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    options = parser.parse_args()
    if options.only != "postgresql":
        with tempfile.TemporaryDirectory(dir=postgres.memory_folder()) as folder:
            _kill("SQLite", Path(folder), f"sqlite:///{folder}/runs.db", options)
    if options.only != "sqlite":
        _kill_on_server(options)


def _kill_on_server(options: argparse.Namespace) -> None:
    with (
        tempfile.TemporaryDirectory(dir=postgres.memory_folder()) as folder,
        postgres.server() as server,
        postgres.database(server, "crashes") as url,
    ):
        _kill("PostgreSQL", Path(folder), url, options)


def _kill(name: str, folder: Path, url: str, options: argparse.Namespace) -> None:
    began = time.monotonic()
    with crashes(folder, url, options.seed) as killed:
        for point in killed.points(options.points):
            killed.check(point)
    sys.stdout.write(
        f"{name}: {options.points} runs killed at {killed.n_kills} points in all, "
        f"{killed.n_cut_off} calls cut off; each reached the same end "
        f"({time.monotonic() - began:.0f} s)\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
