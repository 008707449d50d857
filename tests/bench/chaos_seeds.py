"""The chaos of `tests/agentkit/test_chaos.py` with other seeds.

    python -m tests.bench.chaos_seeds --seeds 10

Prints one line for each seed: requests, CPU seconds, and what was wrong. Ends with status 1 if
anything was.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.agentkit.chaos import chaos_report
from tests.agentkit.virtual_loop import run_virtually


def main() -> int:
    """Try the seeds."""
    parser = argparse.ArgumentParser(description="Runs, faults and users at random, many at once.")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--first", type=int, default=100, help="the first of them")
    parser.add_argument("--runs", type=int, default=200, help="runs at once")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # tools that fail and servers that break off
    n_problems = 0
    for seed in range(given.first, given.first + given.seeds):
        began_s = time.process_time()
        report = run_virtually(chaos_report(seed, given.runs))
        spent_s = time.process_time() - began_s
        wrong = "; ".join(report.problems) or "nothing wrong"
        print(f"seed {seed}: {report.n_requests} requests, {spent_s:.1f} s: {wrong}", flush=True)  # noqa: T201
        n_problems += len(report.problems)
    return 1 if n_problems else 0


if __name__ == "__main__":
    sys.exit(main())
