"""What type checkers know of runs: the types of answers, dependencies and events."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal, assert_never, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from agentkit import Agent, Retry, partial_outputs
from agentkit.context import Context
from agentkit.errors import ApprovalRequired
from agentkit.events import Event, TextDelta
from agentkit.result import Failed, Ok, Outcome, RunResult
from agentkit.saved import Answer, Approve, PausedRun, PendingCall
from agentkit.stream import RunStream


class Found(BaseModel):
    line: int


@dataclass
class Missing:
    reason: str


class Options(TypedDict):
    deep: bool


class Color(enum.Enum):
    RED = "red"


@dataclass
class Database:
    url: str


class Reader(Agent[Database, Found]):
    """Reads."""

    async def check_output(self, output: Found) -> None:
        assert_type(self.deps, Database)
        if output.line < 0:
            raise Retry("Lines begin with 0.")


class Chooser(Agent[None, Found | Missing]):
    """Chooses."""


async def answers_have_the_type_of_the_agent() -> None:
    assert_type((await Agent(model="local:x").run("x")).output, str)
    assert_type((await Agent(model="local:x", output_type=Found).run("x")).output, Found)
    assert_type((await Agent(model="local:x", output_type=Missing).run("x")).output, Missing)
    assert_type((await Agent(model="local:x", output_type=Options).run("x")).output, Options)
    assert_type((await Agent(model="local:x", output_type=Color).run("x")).output, Color)
    assert_type((await Agent(model="local:x", output_type=int).run("x")).output, int)
    assert_type(
        (await Agent(model="local:x", output_type=list[Found]).run("x")).output, list[Found]
    )
    either = Agent[None, Found | Missing](model="local:x", output_type=[Found, Missing])
    assert_type((await either.run("x")).output, Found | Missing)
    assert_type((await Chooser().run("x")).output, Found | Missing)
    words = Agent[None, str | Found](output_type=[str, Found])
    assert_type((await words.run("x")).output, str | Found)
    assert_type((await Agent[None, Literal["yes", "no"]]().run("x")).output, Literal["yes", "no"])


async def all_ways_to_run_have_the_same_result(paused: PausedRun, earlier: Context) -> None:
    reader = Reader(deps=Database("x"))
    assert_type(reader.deps, Database)
    assert_type(await reader.run("x"), RunResult[Found])
    assert_type(await reader.run("x", context=earlier, session="s", user="u"), RunResult[Found])
    assert_type(reader.run_sync("x"), RunResult[Found])
    assert_type(await reader.resume(paused), RunResult[Found])
    assert_type(await reader.resume("run-1", {"call": Approve()}), RunResult[Found])
    assert_type(reader.resume_sync(paused), RunResult[Found])
    assert_type(reader.stream("x"), RunStream[Found])
    assert_type(reader.resume_stream(paused), RunStream[Found])
    async with reader.stream("x") as events:
        async for event in events:
            assert_type(event, Event)
    assert_type(events.result, RunResult[Found])
    async for so_far in partial_outputs(reader.stream("x"), Found):
        assert_type(so_far, Found)
    assert_type(events.result.output.line, int)
    assert_type(RunResult.from_json("{}", Found), RunResult[Found])
    assert_type(RunResult.from_json("{}"), RunResult[Any])


async def a_pause_hands_out_calls_and_takes_answers(agent: Agent) -> str:
    answers: dict[str, Answer] = {}
    try:
        result = await agent.run("x")
    except ApprovalRequired as required:
        for call in required.paused.pending:
            assert_type(call, PendingCall)
            answers[call.id] = Approve()
        result = await agent.resume(required.paused, answers)
    assert_type(result.output, str)
    return result.output


def events_and_outcomes_are_closed_unions(event: Event, outcome: Outcome) -> str:
    match outcome:
        case Ok():
            text = outcome.result.text
        case Failed():
            text = outcome.reason
        case _:
            assert_never(outcome)
    if event.kind == "text_delta":
        assert_type(event, TextDelta)
        assert_type(event.text, str)
    return text


async def agents_without_types_take_none_as_deps() -> None:
    agent = Agent(model="local:x")
    assert_type(agent, Agent[None, str])
    assert_type(agent.deps, None)
    async with agent as opened:
        assert_type(opened, Agent[None, str])
    assert_type(Agent(model="local:x", deps=Database("x")), Agent[Database, str])
