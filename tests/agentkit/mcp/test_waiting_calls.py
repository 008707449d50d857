"""Calls that wait, for approval and for answers, over any number of pauses and processes."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import BaseModel

from agentkit import (
    Accept,
    Agent,
    Answered,
    ApprovalRequired,
    Approve,
    Deny,
    McpServer,
    MemoryJournal,
    PausedRun,
    PendingCall,
)
from agentkit.blocks import AssistantMessage, ToolMessage
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset import ToolPolicy


class Size(BaseModel):
    size: int


class Colour(BaseModel):
    colour: str


def which_size() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def which_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


class Shop:
    """A server with tools that ask nothing, once and twice; with and without approval."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked = asyncio.Event()
        self.server = MCPServer("shop")

        async def plain(n: int) -> str:
            return self.did(f"plain {n}")

        async def once(n: int, size: Annotated[Size, Resolve(which_size)]) -> str:
            return self.did(f"once {n} {size.size}")

        async def twice(
            n: int,
            size: Annotated[Size, Resolve(which_size)],
            colour: Annotated[Colour, Resolve(which_colour)],
        ) -> str:
            return self.did(f"twice {n} {size.size} {colour.colour}")

        async def hang(size: Annotated[Size, Resolve(which_size)]) -> str:
            self.asked.set()
            await asyncio.Event().wait()
            return "never"

        for name, function in {
            "plain": plain,
            "plain_approved": plain,
            "once": once,
            "once_approved": once,
            "twice": twice,
            "hang": hang,
        }.items():
            self.server.add_tool(function, name=name)

    def did(self, what: str) -> str:
        self.done.append(what)
        return what

    def agent(self, model: ScriptedModel, **more: Any) -> Agent[Any, Any]:
        approved = ToolPolicy(requires_approval=True)
        policies = {"plain_approved": approved, "once_approved": approved}
        server = McpServer(alias="shop", server=self.server, elicits=True, policies=policies)
        return Agent(name="buyer", model=model, tools=[server], **more)


TOOLS = ("plain", "plain_approved", "once", "once_approved", "twice")
ANSWERS = st.sampled_from(["yes", "no", "by hand", "later"])


def answer_to(pending: PendingCall, how: str) -> Any:
    if how == "no":
        return Deny("no")
    if how == "by hand":
        return Answered("by hand")
    if pending.question is None:
        return Approve()
    return Accept({"size": 7} if "size" in pending.question.fields else {"colour": "red"})


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_however_answers_come_each_call_has_one_result_and_one_effect(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4))
    asyncio.run(_drive(names, data))


async def _drive(names: list[str], data: st.DataObject) -> None:
    shop = Shop()
    calls = [Call(f"shop__{name}", {"n": n}) for n, name in enumerate(names)]
    model = ScriptedModel([calls, "Done."])
    refused: set[int] = set()
    n_pauses = 0
    result, paused = None, None
    while result is None:
        waiting = None
        try:
            if paused is None:
                result = await shop.agent(model).run("Go.")
            else:
                assert paused.pending, "a run that waits says for what"
                answers = {}
                for each in paused.pending:
                    # After a while everything is answered, so that it ends.
                    how = data.draw(ANSWERS) if n_pauses < 6 else "yes"
                    if how == "later":
                        continue
                    answers[each.id] = answer_to(each, how)
                    if how != "yes":
                        refused.add(json.loads(each.call.arguments)["n"])
                result = await shop.agent(model).resume(paused, answers)
        except ApprovalRequired as waits:
            waiting = waits.paused
        if waiting is not None:
            text = waiting.to_json()
            paused = PausedRun.from_json(text)
            assert paused == waiting
            assert paused.to_json() == text
            n_pauses += 1
            assert n_pauses < 20

    expected = []
    for n, name in enumerate(names):
        base = name.removesuffix("_approved")
        done = {"plain": f"plain {n}", "once": f"once {n} 7", "twice": f"twice {n} 7 red"}[base]
        if n not in refused:
            expected.append(done)
    assert sorted(shop.done) == sorted(expected)
    turn, answered, _ = result.messages[-3:]
    assert isinstance(turn, AssistantMessage)
    assert isinstance(answered, ToolMessage)
    assert [each.call_id for each in answered.results] == [call.id for call in turn.calls]
    assert len(model.calls) == 2
    assert_prefix_stable(model.calls)


async def test_a_process_that_is_lost_after_the_answer_leaves_the_effect_unknown() -> None:
    """M34: it may have happened, so it is not done again by itself."""
    shop, journal = Shop(), MemoryJournal()
    model = ScriptedModel([Call("shop__hang"), "Hm."])
    with pytest.raises(ApprovalRequired) as caught:
        await shop.agent(model, journal=journal).run("Go.", run_id="r")
    (pending,) = caught.value.paused.pending

    going_on = asyncio.create_task(
        shop.agent(model, journal=journal).resume("r", {pending.id: Accept({"size": 1})})
    )
    await asyncio.wait_for(shop.asked.wait(), 10)
    going_on.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_on

    result = await shop.agent(model, journal=journal).resume("r")
    (message,) = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert "Whether it had an effect is unknown" in message.results[0].content
    assert shop.done == []
