"""Handoffs, forks and delegations in any order, with a crash at any step."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import Agent, MemoryJournal, PausedRun, subagent, tool
from agentkit.models import ModelRequest
from agentkit.testing import Call, ScriptedModel, Step, assert_prefix_stable
from tests.agentkit.team.diary import Diary

NAMES = ("a", "b", "c")
MOVES = ("tool", "foreign", "fork", "fresh", "to a", "to b", "to c", "twice")


class Helper(Agent):
    """You help."""


class Speaker(Agent):
    """You speak."""

    max_turns = 30

    @tool(idempotent=True)
    def note(self, text: str) -> str:
        """Note something down."""
        return f"{self.name} noted {text}"


def desk(model: ScriptedModel, journal: MemoryJournal | None = None) -> Agent[Any, Any]:
    """Three speakers who may hand over to each other; each has a tool and helpers of its own."""
    speakers = {
        name: Speaker(
            name=name,
            instructions=f"You are speaker {name}.",
            handoffs=[other for other in NAMES if other < name],
            subagents=[
                subagent(Helper(name=f"fork_{name}"), context="fork"),
                Helper(name=f"fresh_{name}"),
            ],
        )
        for name in NAMES
    }
    for name in NAMES[:-1]:
        speakers[name].handoffs = [other for at, other in speakers.items() if at != name]
    speakers["a"].model, speakers["a"].journal = model, journal
    return speakers["a"]


def script(moves: list[str]) -> ScriptedModel:
    """A model that makes these moves, whoever is active, and then answers."""

    def respond(request: ModelRequest) -> Step:
        if request.agent not in NAMES:
            return f"{request.agent} helps"
        turn = sum(message.kind == "assistant" for message in request.context.messages)
        if turn >= len(moves):
            return f"{request.agent} ends"
        me, move = request.agent, moves[turn]
        match move.split():
            case ["to", name]:
                return Call(f"handoff_to_{name}" if name != me else "note", {})
            case ["twice"]:
                first, second = (other for other in NAMES if other != me)
                return [Call(f"handoff_to_{second}"), Call(f"handoff_to_{first}")]
            case ["foreign"]:
                return Call(f"delegate_to_fresh_{'a' if me != 'a' else 'b'}", {"task": "x"})
            case ["tool"]:
                return Call("note", {"text": str(turn)})
            case [kind]:
                return Call(f"delegate_to_{kind}_{me}", {"task": f"Help {me} in turn {turn}"})
        raise AssertionError(move)

    return ScriptedModel(respond)


def expected_speakers(moves: list[str]) -> list[str]:
    """Who speaks in each turn, by the rules and not by our code."""
    active, found = "a", []
    for move in moves:
        found.append(active)
        match move.split():
            case ["to", name]:
                active = name
            case ["twice"]:
                active = [other for other in NAMES if other != active][1]
    return [*found, active]


@settings(max_examples=25, deadline=None)
@given(moves=st.lists(st.sampled_from(MOVES), max_size=6), data=st.data())
def test_whatever_is_handed_to_whom_the_prefix_stays_and_a_crash_changes_nothing(
    moves: list[str], data: st.DataObject
) -> None:
    diary, model = Diary(), script(moves)
    expected = asyncio.run(desk(model, diary).run("Begin.", run_id="r"))

    speakers = [call.request.agent for call in model.calls if call.request.agent in NAMES]
    assert speakers == expected_speakers(moves)
    assert_prefix_stable(model.calls)
    last = [call.request for call in model.calls if call.request.agent in NAMES]
    for call in model.calls:
        request = call.request
        assert request.toolset.bytes == last[0].toolset.bytes
        if request.agent.startswith("fork"):
            assert any(request.context.starts_with(parent.context) for parent in last)

    state = data.draw(st.sampled_from(diary.states))
    after = script(moves)
    result = asyncio.run(desk(after).resume(PausedRun(runs=state)))
    assert result.context == expected.context
    wires = {call.wire for call in model.calls}
    assert {call.wire for call in after.calls} <= wires
    done = {run.run_id for run in state if run.status == "done"}
    assert done.isdisjoint(call.request.run_id for call in after.calls)
