"""What models were asked, found again by the run that asked: in our form and on the wire."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentkit import Agent, Task, fan_out
from agentkit.fake import Ask, Reply
from agentkit.fake import Call as FakeCall
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable, capture
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld


def look(at: str) -> str:
    """Look."""
    return f"{at} is blue"


class Child(Agent):
    """You help."""


class Boss(Agent):
    """You work."""

    rules = "Be brief. " * 500
    tools = (look,)
    subagents = (Child,)

    def volatile(self, turn: int) -> str | None:
        return f"turn {turn}"


def boss() -> Boss:
    steps = [[Call("look", {"at": "sky"}), Call("delegate_to_child", {"task": "go"})], "done"]
    return Boss(model=ScriptedModel({"boss": steps * 2, "child": ["yes"] * 2}))


def test_a_run_is_found_with_the_runs_below_it_among_others() -> None:
    agent = boss()
    with capture() as asked:
        first, second = agent.run_sync("one"), agent.run_sync("two")
        assert_prefix_stable(first)
        assert_prefix_stable([first, second])

    assert [call.request.agent for call in asked.calls] == ["boss", "child", "boss"] * 2
    assert {call.request.run_id for call in asked.calls} == {
        run.run_id
        for each in (first, second)
        for run in (each, each.children[0].result)  # type: ignore[union-attr]
    }
    assert asked.sent == ()


async def test_a_run_that_was_left_is_found_by_its_stream() -> None:
    with capture() as asked:
        async with boss().stream("one") as events:
            with pytest.raises(AssertionError, match="has not begun"):
                assert_prefix_stable(events)
            async for event in events:
                if event.kind != "run_started":
                    break
        assert_prefix_stable(events)
    assert len(asked.calls) == 1


async def test_siblings_in_tasks_of_their_own_are_heard() -> None:
    agent = Boss(model=ScriptedModel(lambda _: "done"))
    with capture() as asked:
        done = await fan_out(agent, [Task(agent=Child, prompt=str(n)) for n in range(3)])
    assert len(asked.calls) == len(done.outcomes) == 3


def test_a_run_outside_of_any_capture_cannot_be_checked() -> None:
    result = asyncio.run(_run_where_nobody_listens())
    with capture(), pytest.raises(AssertionError, match=r"inside `with capture\(\):`"):
        assert_prefix_stable(result)


async def _run_where_nobody_listens() -> Any:
    import contextvars

    task = asyncio.create_task(boss().run("one"), context=contextvars.Context())
    return await task


def test_what_is_no_run_is_told() -> None:
    with capture(), pytest.raises(TypeError, match="a RunResult"):
        assert_prefix_stable([3])  # type: ignore[list-item]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_wire_of_a_hosted_model_is_compared_too(provider: str) -> None:
    """Byte for byte, with the marks of the provider's cache left out: those may move."""

    def says(ask: Ask) -> Reply:
        if ask.n_turns < 3:
            return Reply(text="I look.", calls=(FakeCall("look", '{"at": "sky"}'),))
        return Reply(text="done é")

    world = HostedWorld(says, provider)
    with capture() as asked:
        world.run(lambda: Boss(model=world.model).run("one"))

        assert len(asked.sent) == len(asked.calls) == 4
        assert [body.body for body in asked.sent] == world.fake.requests
        assert_prefix_stable(asked)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_byte_that_changes_on_the_wire_only_is_found(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our contexts are all right here: the mistake is the adapter's."""
    world = HostedWorld(
        lambda ask: Reply(
            text="ok", calls=(FakeCall("look", '{"at": "sky"}'),) * (not ask.n_turns)
        ),
        provider,
    )
    layout = world.adapter.layout

    def other(request: Any) -> Any:
        laid = layout(request)
        if len(request.context.messages) > 1:
            first = laid.blocks[0]
            laid = replace(laid, blocks=(replace(first, data=b" " + first.data), *laid.blocks[1:]))
        return laid

    monkeypatch.setattr(world.adapter, "layout", other)
    with capture() as asked:
        world.run(lambda: Boss(model=world.model).run("one"))
    with pytest.raises(AssertionError, match=r"prefix changed at byte 0|is not on the wire"):
        assert_prefix_stable(asked)
