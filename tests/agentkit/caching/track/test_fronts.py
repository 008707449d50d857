"""Fronts that rest between two runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal as D

from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.track.fronts import FrontRests

START = datetime(2026, 11, 27, 12, tzinfo=UTC)
SHARED = (
    SharedPrefix(end=1, by=SharedBy.ORGANIZATION, reads=D(2)),
    SharedPrefix(end=2, by=SharedBy.AGENT, reads=D(2)),
    SharedPrefix(end=3, by=SharedBy.RUN, reads=D(1)),
)
KEYS = (b"tools", b"role", b"question")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def gaps(rests: FrontRests, seconds: float, *, begins: bool = True) -> list[D | None]:
    expected = rests.expected(SHARED, KEYS, at=at(seconds), begins=begins)
    return [each.gap_s for each in expected]


def test_nothing_is_expected_of_a_front_that_was_never_used() -> None:
    assert gaps(FrontRests(), 0) == [None, None, None]


def test_the_second_run_already_knows_how_long_its_front_has_rested() -> None:
    rests = FrontRests()
    rests.use(SHARED, KEYS, at=at(0), begins=True)
    rests.use(SHARED, KEYS, at=at(50), begins=False)

    assert gaps(rests, 650) == [D(600), D(600), None]


def test_the_longest_rest_counts_until_enough_shorter_ones_followed() -> None:
    rests = FrontRests()
    for seconds in (0, 600, 610, 620):
        rests.use(SHARED, KEYS, at=at(seconds), begins=True)
    assert gaps(rests, 621, begins=False)[0] == D(600)
    for seconds in range(630, 711, 10):
        rests.use(SHARED, KEYS, at=at(seconds), begins=True)

    assert gaps(rests, 711, begins=False)[0] == D(10)


def test_requests_of_one_run_are_no_rests() -> None:
    rests = FrontRests()
    for seconds in (0, 900, 1800):
        rests.use(SHARED, KEYS, at=at(seconds), begins=seconds == 0)

    assert gaps(rests, 1900, begins=False) == [None, None, None]


def test_agents_of_one_team_share_what_is_known_of_their_common_front() -> None:
    rests = FrontRests()
    rests.use(SHARED, KEYS, at=at(0), begins=True)
    other = rests.expected(SHARED, (b"tools", b"other role", b"q"), at=at(400), begins=True)

    assert [each.gap_s for each in other] == [D(400), None, None]
