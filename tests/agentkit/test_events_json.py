"""Events as JSON: all of them, and what an interface needs of each."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from agentkit import (
    Agent,
    HookContext,
    Hooks,
    ModelError,
    PausedRun,
    Retry,
    RunResult,
    events,
    tool,
)
from agentkit.caching.iterations import ModelUsage
from agentkit.caching.verdict import Verdict
from agentkit.events import AnswerRejected, Event, TextDelta, UsageEvent
from agentkit.events_json import event_to_json
from agentkit.testing import Call, Say, ScriptedModel
from agentkit.usage import Usage
from tests.agentkit.clerks import Log

EVENTS = get_args(Event)


@dataclass
class Sum:
    eur: int


@tool
def fetch(n: int) -> str:
    """Fetch."""
    return f"page {n}"


def test_each_event_is_a_frozen_value_with_a_kind_of_its_own() -> None:
    kinds = []
    for event in EVENTS:
        assert event.__dataclass_params__.frozen
        (kind,) = get_args(get_type_hints(event, _types())["kind"])
        kinds.append(kind)
        assert not next(item for item in fields(event) if item.name == "kind").init
    assert len(set(kinds)) == len(kinds) == len(EVENTS)


async def test_every_event_of_a_run_is_a_json_object_that_says_its_kind() -> None:
    below: Agent[Any, Any] = Agent(name="below", instructions="You help.", tools=[fetch])
    model = ScriptedModel(
        {
            "above": [
                ModelError("busy", retryable=True, retry_after_s=0.0),
                [Say("I ask."), Call("delegate_to_below", {"task": "Help."})],
                '{"eur": 3}',
            ],
            "below": [Call("fetch", {"n": 1}), "Helped."],
        }
    )
    agent: Agent[Any, Sum] = Agent(
        name="above", model=model, instructions="You ask.", subagents=[below], output_type=Sum
    )
    seen = [event async for event in agent.stream("Go.")]
    told = [json.loads(json.dumps(event_to_json(event))) for event in seen]
    assert [each["kind"] for each in told] == [event.kind for event in seen]
    by_kind = {each["kind"]: each for each in told}
    assert by_kind["run_started"]["agent"] == "above"
    assert by_kind["turn_dropped"]["error"] == "ModelError: busy"
    assert by_kind["turn_end"]["turn"]["usage"]["input_tokens"] > 0
    end = by_kind["run_end"]
    assert end["output"] == {"eur": 3}
    assert end["text"] == '{"eur": 3}'
    assert end["cache"]["total"]["requests"] == 5
    nested = [each for each in told if each["kind"] == "subagent"]
    assert {tuple(each["path"]) for each in nested} == {("above", "below")}
    results = [each["event"] for each in nested if each["event"]["kind"] == "tool_result_event"]
    assert [each["result"]["content"] for each in results] == ["page 1"]
    text = "".join(each["text"] for each in told if each["kind"] == "text_delta")
    assert text == 'I ask.{"eur": 3}'


async def test_a_pause_tells_the_calls_to_answer() -> None:
    model = ScriptedModel([Call("pay", {"to": "Ada", "eur": 5})])
    agent: Agent[Any, Any] = Agent(name="clerk", model=model, tools=Log().tools)
    stream = agent.stream("Go.", run_id="r")
    told = [event_to_json(event) async for event in stream][-1]
    assert told == {
        "kind": "run_paused",
        "turns": 0,
        "run_id": "r",
        "pending": [
            {
                "id": stream.paused.pending[0].id,  # type: ignore[union-attr]
                "path": ["clerk"],
                "name": "pay",
                "arguments": '{"to": "Ada", "eur": 5}',
            }
        ],
    }


def test_an_event_with_parts_is_told_with_them() -> None:
    part = ModelUsage(model="m", kind="message", usage=Usage(input_tokens=1))
    told = event_to_json(UsageEvent(usage=Usage(output_tokens=2), parts=(part,)))
    assert told["kind"] == "usage"
    assert json.loads(json.dumps(told))["parts"][0]["usage"]["input_tokens"] == 1


def _types() -> dict[str, Any]:
    """What the module of events knows for type checkers only."""
    return {
        **vars(events),
        "ModelUsage": ModelUsage,
        "PausedRun": PausedRun,
        "RunResult": RunResult,
        "Verdict": Verdict,
    }


class House(Hooks):
    async def guard_output(self, at: HookContext[Any], output: Any) -> None:
        if output == [0]:
            raise Retry("no zeros")


async def test_an_answer_that_is_asked_again_is_told_so_that_its_text_can_be_forgotten() -> None:
    model = ScriptedModel(["none", "[0]", "[1]"])
    agent: Agent[Any, list[int]] = Agent(
        name="lister", model=model, output_type=list[int], hooks=[House()]
    )
    shown, told = "", []
    async with agent.stream("Go.") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                shown += event.text
            elif isinstance(event, AnswerRejected):
                shown = ""
                told.append(event_to_json(event))
    assert shown == "[1]"
    assert [(each["kind"], each["index"]) for each in told] == [
        ("answer_rejected", 0),
        ("answer_rejected", 1),
    ]
    assert told[1]["reason"] == "Your answer is not accepted: no zeros\nAnswer again."
    assert stream.result.messages[2].text == told[0]["reason"]
