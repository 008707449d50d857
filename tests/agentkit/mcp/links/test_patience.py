"""How long is waited: for one answer, and before a server is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset.mcp.links.backoff import Backoff
from agentkit.toolset.mcp.links.patience import Patience


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@given(st.floats(0.1, 100), st.lists(st.floats(0, 200), max_size=50))
def test_patience_ends_when_a_whole_limit_was_silent_or_ten_limits_are_over(limit_s, gaps_s):
    clock = Clock()
    patience = Patience(limit_s, clock)
    for gap_s in gaps_s:
        clock.now_s += gap_s
        left_s = patience.left_s()
        assert left_s is not None
        has_ended = gap_s >= limit_s or clock.now_s >= 10 * limit_s
        assert (left_s <= 0) == has_ended or abs(left_s) < 1e-9
        if has_ended:
            return
        patience.sign_of_life()
    # Sums of floats: the same to rounding.
    assert patience.left_s() == pytest.approx(min(limit_s, 10 * limit_s - clock.now_s), abs=1e-9)


def test_without_a_limit_patience_has_no_end():
    clock = Clock()
    patience = Patience(None, clock)
    clock.now_s = 1e9
    assert patience.left_s() is None


def test_pauses_double_up_to_a_minute_and_start_again_after_a_success():
    clock = Clock()
    backoff = Backoff(clock)
    assert backoff.left_s == 0
    pauses = []
    for _ in range(9):
        pauses.append(backoff.failed())
        assert backoff.left_s == pauses[-1]
        clock.now_s += pauses[-1]
        assert backoff.left_s == 0
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    backoff.reset()
    assert (backoff.left_s, backoff.failed()) == (0, 1)


@given(st.integers(1, 10_000))
def test_a_server_that_is_gone_for_ever_is_still_tried_once_a_minute(n):
    backoff = Backoff(Clock())
    for _ in range(n):
        pause_s = backoff.failed()
    assert pause_s <= 60


def test_a_server_that_reports_for_ever_is_given_up_after_ten_limits():
    clock = Clock()
    patience = Patience(60, clock)
    lefts_s = []
    for _ in range(25):
        clock.now_s += 30
        patience.sign_of_life()
        lefts_s.append(patience.left_s())
    assert lefts_s == [60] * 18 + [30, 0, -30, -60, -90, -120, -150]
