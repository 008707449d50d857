"""A process may be lost at any save: the run goes on elsewhere as if nothing had happened."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agentkit import ApprovalRequired, JournalError
from tests.agentkit.lost_runs import (
    INTERRUPTED,
    RUN_ID,
    LosingJournal,
    Node,
    World,
    answered_calls,
    busy,
    carried_out,
    found,
    nodes,
    story,
)

PHASES = (Phase.explicit, Phase.generate)
"""No shrinking: a program that fails is small enough, and each try runs a whole team."""


def uninterrupted(program: Node, *, one_at_a_time: bool) -> tuple[World, object, int]:
    world = World(program)
    result, n_saves = asyncio.run(carried_out(world, [], one_at_a_time=one_at_a_time))
    assert max(world.ran.values(), default=1) == 1
    assert all(len(wires) == 1 for wires in world.asked.values())
    return world, story(result), n_saves


def check(
    program: Node, expected: tuple[World, object, int], losses: list[tuple[int, bool]], *, one: bool
) -> bool:
    """Returns whether it ended the same; else the model was told that a call is lost."""
    calm, calm_story, _ = expected
    world = World(program)

    async def main() -> object:
        result, _ = await carried_out(world, losses, one_at_a_time=one)
        return story(result)

    told = asyncio.run(main())
    # A call that is not idempotent never runs twice.
    assert all(count == 1 for key, count in world.ran.items() if _is_once(program, key))
    if INTERRUPTED in repr(told):
        return False  # what it reads differs from there on
    assert told == calm_story
    assert world.asked == calm.asked
    assert world.ran.keys() == calm.ran.keys()
    return True


def _is_once(program: Node, key: str) -> bool:
    task, turn, index = key.rsplit(".", 2)
    return found(program, task).turns[int(turn)][int(index)] != "again"


@pytest.mark.parametrize("third", ["pay", "again"])
def test_a_run_that_is_lost_at_any_one_save_ends_the_same(third: str) -> None:
    program = busy(third)
    expected = uninterrupted(program, one_at_a_time=False)
    n_saves = expected[2]
    assert n_saves > 40
    n_equal = sum(
        check(program, expected, [(lost_at, lost_at % 2 == 0)], one=False)
        for lost_at in range(1, n_saves + 1)
    )
    assert n_equal > 0.8 * n_saves


@settings(max_examples=50, deadline=None, phases=PHASES)
@given(
    nodes(),
    st.lists(st.tuples(st.integers(1, 25), st.booleans()), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_run_that_is_lost_again_and_again_ends_the_same(
    program: Node, losses: list[tuple[int, bool]], one: bool
) -> None:
    check(program, uninterrupted(program, one_at_a_time=one), losses, one=one)


@settings(max_examples=30, deadline=None, phases=PHASES)
@given(nodes(), st.integers(1, 25))
def test_a_call_whose_result_is_kept_does_not_run_again(program: Node, lost_at: int) -> None:
    world = World(program)

    async def main() -> None:
        agent = world.team(LosingJournal(world.kept, lost_at, after=True))
        with contextlib.suppress(JournalError, ApprovalRequired):
            await agent.run("0", run_id=RUN_ID)
        kept = answered_calls(await world.kept.load(RUN_ID))
        before = {key: world.ran[key] for key in kept}
        assert all(before.values())
        await carried_out(world, [], one_at_a_time=False)
        assert {key: world.ran[key] for key in kept} == before

    asyncio.run(main())
