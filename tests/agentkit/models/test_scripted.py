"""The scripted model: replays, records, and fails on what the script does not say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentkit import Agent
from agentkit.blocks import ToolMessage, ToolResult, UserMessage
from agentkit.context import Context
from agentkit.errors import ModelError
from agentkit.events import ModelEvent, TextDelta, Turn
from agentkit.folding import fold
from agentkit.models.base import Model, ModelRequest
from agentkit.testing import (
    Call,
    Reply,
    Say,
    ScriptedModel,
    UnconsumedSteps,
    UnexpectedCall,
    assert_extends,
    assert_prefix_stable,
)
from agentkit.toolset import Toolset
from agentkit.usage import Usage


def request(*texts: str, agent: str = "a", run_id: str = "r") -> ModelRequest:
    return ModelRequest(
        context=Context(*map(UserMessage.of, texts)),
        toolset=Toolset(),
        agent=agent,
        run_id=run_id,
        request_id="1",
    )


async def ask(model: ScriptedModel, asked: ModelRequest | None = None) -> Turn:
    events: list[ModelEvent] = [event async for event in model.stream(asked or request("hi"))]
    return fold(events)


async def test_steps_are_replayed_in_order_in_small_deltas() -> None:
    model = ScriptedModel(["a long answer", [Say("ok"), Call("f", {"é": 1})], Call("g", "{broken")])

    first = [event async for event in model.stream(request("hi"))]
    second, third = await ask(model), await ask(model)

    assert [event.text for event in first if isinstance(event, TextDelta)] == ["a long ", "answer"]
    assert (second.message.text, second.message.calls[0].arguments) == ("ok", '{"é": 1}')
    assert second.finish == "tool_calls"
    assert third.message.calls[0].arguments == "{broken"
    model.assert_consumed()


async def test_ids_of_calls_follow_from_the_conversation_in_any_process() -> None:
    """A run that is resumed elsewhere has a model object that has seen nothing of it."""
    first = await ask(ScriptedModel([[Call("f"), Call("g")]]))
    calls = first.message.calls
    results = tuple(ToolResult(call_id=call.id, name=call.name, content="1") for call in calls)
    context = request("hi").context.append(first.message, ToolMessage(results))

    second = await ask(ScriptedModel([Call("h")]), replace(request("hi"), context=context))

    assert [call.id for call in (*calls, *second.message.calls)] == ["call_1", "call_2", "call_3"]


async def test_a_function_sees_the_request_and_decides() -> None:
    model = ScriptedModel(lambda asked: f"you said {asked.context.messages[-1].blocks[0].text}")  # type: ignore[union-attr]

    assert (await ask(model, request("one"))).message.text == "you said one"
    assert (await ask(model, request("two"))).message.text == "you said two"
    model.assert_consumed()


async def test_an_exception_as_a_step_is_raised() -> None:
    with pytest.raises(ModelError, match="overloaded"):
        await ask(ScriptedModel([ModelError("overloaded", retryable=True)]))


async def test_an_unexpected_call_fails_now_and_at_the_end() -> None:
    model = ScriptedModel(["only one"])
    await ask(model)

    with pytest.raises(UnexpectedCall, match=r"call 2, by agent 'a'.*context ends with.*hi"):
        await ask(model)
    with pytest.raises(UnconsumedSteps, match="call 2"):
        model.assert_consumed()


async def test_unconsumed_steps_fail_at_the_end() -> None:
    model = ScriptedModel({"a": ["1", "2"], "b": ["3"]})
    await ask(model)

    with pytest.raises(UnconsumedSteps, match=r"1 steps left for 'a'; 1 steps left for 'b'"):
        model.assert_consumed()


async def test_a_team_has_a_script_for_each_agent() -> None:
    model = ScriptedModel({"a": ["for a"], "b": ["for b"]})

    assert (await ask(model, request("x", agent="b"))).message.text == "for b"
    assert (await ask(model, request("x", agent="a"))).message.text == "for a"
    assert [call.request.agent for call in model.calls] == ["b", "a"]
    assert len(model.calls_of("b")) == 1


async def test_usage_counts_the_segments_that_an_earlier_request_had_too() -> None:
    model = ScriptedModel(lambda _: "answer")
    long, short = "x" * 400, "y" * 40

    cold = await ask(model, request(long, short))
    warm = await ask(model, request(long, short, "more"))
    other = await ask(model, request(long, "other"))

    assert cold.usage.cache_read_tokens == 0
    assert warm.usage.cache_read_tokens == cold.usage.input_tokens
    assert 100 < (other.usage.cache_read_tokens or 0) < (cold.usage.input_tokens or 0)
    assert cold.usage.output_tokens == 2


async def test_a_reply_may_fix_finish_and_usage() -> None:
    usage = Usage(input_tokens=5)
    turn = await ask(ScriptedModel([Reply(parts=(Say("cu"),), finish="length", usage=usage)]))

    assert (turn.finish, turn.usage) == ("length", usage)


def test_a_lone_string_is_no_script() -> None:
    with pytest.raises(TypeError, match="list of steps"):
        ScriptedModel("answer")


def test_it_is_a_model() -> None:
    assert isinstance(ScriptedModel([]), Model)


def test_a_moved_prefix_is_shown_where_it_moved() -> None:
    assert_extends(b"abc\ndef\n", b"abc\ndef\nghi\n")
    with pytest.raises(AssertionError, match=r"byte 5 \(line 2\)"):
        assert_extends(b"abc\ndef\n", b"abc\ndXf\nghi\n")
    with pytest.raises(AssertionError, match="byte 4"):
        assert_extends(b"abc\ndef\n", b"abc\n")


async def test_stability_is_checked_for_each_run_by_itself() -> None:
    model = ScriptedModel(lambda _: "answer")
    for asked in (
        request("a", run_id="1"),
        request("b", run_id="2"),
        request("a", "c", run_id="1"),
    ):
        await ask(model, asked)
    assert_prefix_stable(model.calls)

    await ask(model, request("b changed", run_id="2"))
    with pytest.raises(AssertionError, match="prefix changed"):
        assert_prefix_stable(model.calls)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([3], "got 3"),
        ([{"a": 1}], "is given as text"),
        ([["words"]], r"got \['words'\]"),
        ([b"x"], "got b'x'"),
        ([Call], "the class Call; make one of it"),
        ({"lead": "done"}, r"use \['done'\]"),
        (3, "a script is a list of steps, got 3"),
    ],
)
def test_what_is_no_step_is_refused_where_the_script_is_made(script: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        ScriptedModel(script)


async def test_a_function_that_returns_no_step_is_told_so() -> None:
    with pytest.raises(TypeError, match="got 3"):
        await Agent(name="a", model=ScriptedModel([lambda request: 3])).run("x")  # type: ignore[list-item, return-value]


async def test_a_script_without_the_agent_says_whom_it_has_steps_for() -> None:
    model = ScriptedModel({"led": ["x"], "reader": ["y"]})
    with pytest.raises(UnexpectedCall, match="which has steps for: 'led', 'reader'; the context"):
        await Agent(name="lead", model=model).run("x")
