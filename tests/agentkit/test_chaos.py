"""Two hundred runs at once, at providers that fail in every way, by users who do as they like.

Whatever happens: nothing hangs, nothing is left over, each conversation can be continued at the
provider, and no budget is passed by more than one request. `tests/bench/chaos_seeds.py` tries other
seeds.
"""

from __future__ import annotations

import gc
import threading

import pytest

from tests.agentkit.chaos import chaos_report
from tests.agentkit.virtual_loop import run_virtually

SEED = 2
N_RUNS = 200


@pytest.mark.timeout(240)
# anyio loses a socket whose connecting is cancelled just when it succeeds; it closes when it is
# collected. Sockets that are kept are counted.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <(socket|function .*Transport):"
    "pytest.PytestUnraisableExceptionWarning"
)
def test_whatever_happens_runs_end_and_leave_conversations_that_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("CRITICAL")  # tools that fail and servers that break off are in the log
    n_threads = threading.active_count()

    report = run_virtually(chaos_report(SEED, N_RUNS))
    gc.collect()  # what was never closed is told now, as a warning, which is an error

    assert report.problems == []
    assert threading.active_count() == n_threads
    # It was chaos: each kind of trouble came, and each kind of user.
    for trouble in ("hang", "crawl", "broken stream", "malformed arguments", "call nobody"):
        assert report.did[trouble] >= 1, trouble
    for status in (400, 429, 500, 503, 529):
        assert report.did[f"status {status}"] >= 1, status
    for how in ("read", "cancel", "timeout", "leave", "pause", "fan out"):
        assert report.ended[how] >= 5, how
    for error in ("LimitReached", "TurnLimitReached", "ModelError"):
        assert any(how.endswith(f": {error}") for how in report.ended), error
    assert sum(report.ended.values()) >= N_RUNS
    assert report.n_requests >= 3 * N_RUNS
