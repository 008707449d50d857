"""JSON of runs with damage anywhere: `FormatError`, or a value that is as good as any."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    Limits,
    PausedRun,
    RunResult,
    tool,
)
from agentkit.errors import FormatError
from agentkit.saved import SavedRun
from agentkit.testing import Call, ScriptedModel

_DAMAGE: list[Any] = [None, True, -1, 0, 10**30, 1.5, "", "x", "sNaN", [], {}, [1], {"a": 1}]


@tool(requires_approval=True)
def pay(x: int) -> str:
    """Pay."""
    return "paid"


def texts() -> dict[str, str]:
    kid = Agent(name="kid", instructions="k", model=ScriptedModel(["k"]))
    script: list[Any] = [[Call("delegate_to_kid", {"task": "t"}), Call("pay", {"x": 1})], "Done."]
    agent = Agent(
        name="a",
        instructions="i",
        model=ScriptedModel(script),
        tools=[pay],
        subagents=[kid],
        limits=Limits(usd=1.0, tokens=100_000),
    )
    with pytest.raises(ApprovalRequired) as caught:
        agent.run_sync("x")
    paused = caught.value.paused
    done = agent.resume_sync(paused, {paused.pending[0].id: Approve()})
    return {"result": done.to_json(), "paused": paused.to_json(), "run": paused.runs[0].to_json()}


READERS: dict[str, Callable[[str], Any]] = {
    "result": RunResult.from_json,
    "paused": PausedRun.from_json,
    "run": SavedRun.from_json,
}


@pytest.mark.parametrize("kind", READERS)
def test_damage_anywhere_is_a_format_error_or_a_value_that_can_be_kept(kind: str) -> None:
    text = texts()[kind]
    n_refused = n_places = 0
    for holder, key in places(whole := json.loads(text)):
        n_places += 1
        right = holder[key]
        for wrong in (_DAMAGE[n_places % len(_DAMAGE)], _DAMAGE[(n_places + 5) % len(_DAMAGE)]):
            holder[key] = wrong
            try:
                read = READERS[kind](json.dumps(whole))
            except FormatError:
                n_refused += 1
            else:
                assert READERS[kind](read.to_json()) is not None
                assert repr(read)
        holder[key] = right
    assert json.loads(text) == whole
    assert n_refused > n_places / 2


@pytest.mark.parametrize("kind", READERS)
def test_json_that_is_nested_too_deeply_is_a_format_error(kind: str) -> None:
    with pytest.raises(FormatError):
        READERS[kind]("[" * 100_000)


@pytest.mark.parametrize("number", ["x", "", "NaN", "sNaN"])
def test_an_amount_that_is_no_number_is_a_format_error(number: str) -> None:
    whole = json.loads(texts()["result"])
    whole["result"]["limits"][0]["used"] = number
    with pytest.raises(FormatError, match="number"):
        RunResult.from_json(json.dumps(whole))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as what holds it and where in that."""
    found: list[tuple[Any, Any]] = []
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


@pytest.mark.parametrize("option", ["session", "user", "run_id"])
async def test_a_name_that_could_not_be_kept_is_refused_before_the_run_begins(option: str) -> None:
    agent = Agent(name="a", instructions="i", model=ScriptedModel([]))
    given: Any = {option: "a\ud800"}
    with pytest.raises(ConfigurationError, match=f"{option} holds a lone surrogate"):
        await agent.run("x", **given)
