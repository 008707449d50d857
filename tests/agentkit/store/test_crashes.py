"""A run whose process is killed, at any point, goes on in another one as if nothing had been.

`tests/bench/crash_points.py` does this at 100 points of each database.
"""

from __future__ import annotations

from pathlib import Path

from tests.agentkit.store.crash_check import crashes

N_POINTS = {"sqlite": 14, "postgresql": 8}
SEED = 5


def test_a_run_that_is_killed_at_random_points_reaches_the_same_end(url: str, folder: Path) -> None:
    n_points = N_POINTS[url.partition(":")[0]]
    with crashes(folder, url, SEED) as killed:
        for point in killed.points(n_points):
            killed.check(point)
        assert killed.n_kills >= n_points


def test_a_call_that_must_not_run_twice_and_was_cut_off_is_told_to_the_model(
    url: str, folder: Path
) -> None:
    with crashes(folder, url, SEED) as killed:
        killed.check_within("crash:c8.0")
        assert killed.n_cut_off == 1
