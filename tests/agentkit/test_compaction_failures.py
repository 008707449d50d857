"""A summary that fails, is cancelled or paused costs the run nothing but the summary."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from agentkit import ModelError, RequestRefused
from agentkit.blocks import ToolMessage
from agentkit.context import Context
from agentkit.context.turns import is_summary
from agentkit.events import ContextCompacted, RunPaused, TurnDropped
from agentkit.models import ModelRequest
from agentkit.testing import Call, Reply, Say, ScriptedModel, assert_extends, assert_prefix_stable
from tests.agentkit.digger import (
    Digger,
    compactions,
    holes,
    is_summary_request,
    run_all,
)


def test_a_model_that_calls_a_tool_instead_is_asked_once_more_behind_the_same_prefix() -> None:
    digger = Digger(12, Call("dig", {"hole": 99}))
    result, events = run_all(digger.agent())

    first, second = digger.asked_for_summaries
    assert_extends(first.wire, second.wire)
    assert isinstance(second.context.messages[-2], ToolMessage)
    assert second.context.messages[-2].results[0].is_error
    assert len(compactions(events)) == 1
    assert 99 not in holes(result.messages)
    assert 99 not in holes(result.context.messages)


@pytest.mark.parametrize(
    "failure",
    [
        "",
        Call("dig", {"hole": 99}),
        Reply(parts=(Say("cut"),), finish="length"),
    ],
)
def test_a_run_goes_on_without_a_summary_and_does_not_ask_for_one_at_each_turn(
    failure: Any,
) -> None:
    digger = Digger(20, *itertools.repeat(failure, 100))
    result, events = run_all(digger.agent())

    assert result.output == "Only sand."
    assert not compactions(events)
    assert holes(result.context.messages) == list(range(1, 20))
    assert {each.epoch for each in result.requests} == {0}
    # 11 turns above the trigger; asked after 0, 4 and 8 more turns, at most twice each time
    assert len(digger.asked_for_summaries) <= 6
    assert_extends(digger.asked_for_summaries[0].wire, digger.asked_for_summaries[1].wire)


@pytest.mark.parametrize("retryable", [True, False])
def test_a_model_that_fails_at_the_summary_does_not_fail_the_run(retryable: bool) -> None:
    digger = Digger(12, ModelError("overloaded", retryable=retryable))
    result, events = run_all(digger.agent())

    assert result.output == "Only sand."
    assert len(result.requests) == len(digger.model.calls)
    first = next(n for n, c in enumerate(digger.model.calls) if is_summary_request(c.request))
    assert not is_summary_request(digger.model.calls[first + 1].request)
    assert len(compactions(events)) <= 1


def test_a_model_that_refuses_the_new_epoch_goes_on_with_the_old_one() -> None:
    """Older models want the thinking of the last turn, which a summary's epoch has not."""

    def step(request: ModelRequest) -> Any:
        if is_summary(request.context.messages[0]):
            return RequestRefused("the last turn must start with a thinking block")
        return digger.step(request)

    digger = Digger(20)
    digger.model = ScriptedModel(step)
    result, events = run_all(digger.agent())

    assert result.output == "Only sand."
    assert len(compactions(events)) == len(digger.asked_for_summaries) == 1
    (dropped,) = [event for event in events if isinstance(event, TurnDropped)]
    assert isinstance(dropped.error, RequestRefused)
    assert holes(result.messages) == holes(result.context.messages) == list(range(1, 20))
    assert sorted({each.epoch for each in result.requests}) == [0, 1, 2]
    assert_prefix_stable(digger.model.calls)


async def test_cancelled_while_the_summary_is_written_the_context_is_the_old_one() -> None:
    digger = Digger(12)
    waiting = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if is_summary_request(request):
                waiting.set()
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    digger.model = Slow(digger.step)
    stream = digger.agent().stream("Dig.")

    async def consume() -> None:
        async with stream as events:
            async for _ in events:
                pass

    task = asyncio.create_task(consume())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert stream.context is not None
    assert not stream.context.open_calls
    assert holes(stream.context.messages) == list(range(1, digger.n_turns + 1))
    assert stream.record is not None
    assert len(stream.record.requests) == digger.n_turns
    later = Digger(1)
    assert (await later.agent().run(None, context=stream.context)).output == "Only sand."


async def test_a_pause_during_the_summary_pauses_behind_it_and_the_run_goes_on_from_there() -> None:
    digger = Digger(12)

    def step(request: ModelRequest) -> Any:
        if is_summary_request(request):
            stream.pause()
        return digger.step(request)

    digger.model = ScriptedModel(step)
    agent = digger.agent()
    stream = agent.stream("Dig.")
    async with stream as events:
        seen = [event async for event in events]

    assert isinstance(seen[-1], RunPaused)
    assert isinstance(seen[-2], ContextCompacted)
    assert stream.context is not None
    assert is_summary(stream.context.messages[0])
    assert stream.record is not None
    dug = holes(stream.record.messages)
    assert dug == list(range(1, seen[-1].turns + 1))
    result = await agent.run(None, context=Context.load(stream.context.dump()))
    assert result.output == "Only sand."
    assert holes(result.messages) == list(range(dug[-1] + 1, 12))
