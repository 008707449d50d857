"""What is learned of a run's end and of a front's rests, and what is written then."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix, Written
from agentkit.caching.plan.ends import RunEnds
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.simulate import ManualClock
from tests.agentkit.caching.plan.planning import CLAUDE, block, draft_of, policy_of, request, user

LIFE_S = 3_600
OWN = SharedPrefix(end=3, by=SharedBy.RUN, reads=Decimal("0.85"))
START = ManualClock()()
POLICY = policy_of("anthropic", CLAUDE)
SHORT_PAYS = Decimal("0.22")


def chance(ends: RunEnds, at_s: float, agent: str = "a") -> Decimal:
    at = START + timedelta(seconds=at_s)
    return ends.expected([OWN], agent, at=at, life_s=LIFE_S)[-1].reads


def ask(ends: RunEnds, name: str, at_s: float, goes_on_from: str | None = None) -> None:
    at = START + timedelta(seconds=at_s)
    ends.asks("a", name, goes_on_from=goes_on_from, at=at, life_s=LIFE_S)


def test_at_first_nothing_is_known() -> None:
    assert chance(RunEnds(), 0) == OWN.reads


def test_ends_that_nobody_reads_are_given_up_after_some_runs() -> None:
    ends = RunEnds()
    for number in range(7):
        ask(ends, f"r{number}", number * 7_200)
    assert chance(ends, 7 * 7_200) < SHORT_PAYS
    assert chance(ends, 7 * 7_200, agent="another") == OWN.reads


def test_runs_of_many_requests_stay_expected() -> None:
    ends = RunEnds()
    for run in range(9):
        for turn in range(10):
            before = f"{run}/{turn - 1}" if turn else None
            ask(ends, f"{run}/{turn}", run * 7_200 + turn * 20, before)
    assert chance(ends, 9 * 7_200) > Decimal("0.8")


def test_siblings_that_are_still_at_work_say_nothing_yet() -> None:
    ends = RunEnds()
    for number in range(40):
        ask(ends, f"r{number}", number / 10)
    assert chance(ends, 60) == OWN.reads


def test_who_comes_after_the_longest_lifetime_reads_nothing() -> None:
    ends = RunEnds()
    for number in range(12):
        ask(ends, f"r{number}", number * 4_000, f"r{number - 1}" if number else None)
    assert chance(ends, 12 * 4_000) < SHORT_PAYS


def test_an_entry_that_is_kept_alive_is_still_there_for_who_comes_late() -> None:
    ends = RunEnds()
    for number in range(12):
        ask(ends, f"r{number}", number * 4_000, f"r{number - 1}" if number else None)
        touched_at = START + timedelta(seconds=number * 4_000 + 3_000)
        ends.touched("a", f"r{number}", at=touched_at)
    assert chance(ends, 11 * 4_000) > Decimal("0.8")


def test_users_who_go_on_again_are_learned_anew() -> None:
    ends = RunEnds()
    for number in range(20):
        ask(ends, f"r{number}", number * 7_200)
    last = 20 * 7_200
    for number in range(20, 50):
        ask(ends, f"r{number}", last + number * 30, f"r{number - 1}")
    assert chance(ends, last + 50 * 30) > Decimal("0.7")


def test_an_end_that_is_known_to_be_the_last_stays_so() -> None:
    never = replace(OWN, reads=Decimal(0))
    assert RunEnds().expected([never], "a", at=START, life_s=LIFE_S) == (never,)


def front_draft(gaps_s: tuple[int, ...], *, own: Decimal) -> Draft:
    tools = [block("tool", 4_000, BlockKind.TOOL)]
    draft = draft_of(request([user(block("question", 50))], tools=tools, system=[block("rules")]))
    n_blocks = draft.request.n_blocks
    gaps = tuple(map(Decimal, gaps_s))
    front = SharedPrefix(end=2, by=SharedBy.AGENT, reads=Decimal(2), gap_s=max(gaps), gaps_s=gaps)
    run = SharedPrefix(end=n_blocks, by=SharedBy.RUN, reads=own)
    return replace(draft, shared=(front, run))


def test_a_front_that_rests_longer_than_every_lifetime_is_not_written() -> None:
    planned = plan(front_draft((7_200,) * 8, own=Decimal("0.2")), POLICY, Written(), START)
    assert planned.marks == ()
    assert planned.predicted.split.written == 0
    assert planned.siblings_ahead == 0


@pytest.mark.parametrize("gaps_s", [(0, 0, 0, 0, 0, 7_200), (0, 7_200)])
def test_a_front_that_siblings_share_is_written_however_long_they_rest_together(
    gaps_s: tuple[int, ...],
) -> None:
    planned = plan(front_draft(gaps_s, own=Decimal("0.2")), POLICY, Written(), START)
    assert [mark.index for mark in planned.marks] == [1]
    assert planned.siblings_ahead == 1


def test_a_front_that_one_lifetime_outlasts_is_written_for_long_however_many_come_soon() -> None:
    """Each of them renews it: one premium serves the next rounds, too."""
    draft = front_draft((0, 0, 0, 0, 0, 2_000), own=Decimal("0.2"))
    planned = plan(draft, POLICY, Written(), START)
    assert [(mark.index, mark.ttl) for mark in planned.marks] == [(1, Ttl.ONE_HOUR)]


def test_a_dead_front_takes_nothing_from_a_run_that_goes_on() -> None:
    planned = plan(front_draft((7_200,) * 8, own=Decimal("0.85")), POLICY, Written(), START)
    assert planned.marks[-1].index == 2
    assert planned.predicted.split.written == 5_050
