"""Deadlines of agents that do not begin the run: subagents that are cut off, and who takes over."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from agentkit import (
    Agent,
    HookContext,
    Hooks,
    LimitReached,
    Limits,
    MemoryJournal,
    ModelError,
    tool,
)
from agentkit.blocks import UserMessage
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.virtual_loop import VirtualLoop

HOUR_S = 3_600.0
T = TypeVar("T")


@pytest.fixture
def virtually(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Does some work in virtual time, which runs have as well."""

    def work(todo: Coroutine[Any, Any, T]) -> T:
        loop = VirtualLoop()
        loop.idle_threads = threading.active_count()
        clock = SimpleNamespace(monotonic=loop.time, time=time.time)
        monkeypatch.setattr("agentkit.state.time", clock)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(todo)

    return work


class Hangs(ScriptedModel):
    """Says how much it has read, begins an answer, and never ends it."""

    def __init__(self) -> None:
        super().__init__(lambda _: "word " * 100)
        self.n_asked = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.n_asked += 1
        n_events = 0
        async for event in super().stream(request):
            yield event
            n_events += 1
            if n_events == 20:
                await asyncio.sleep(HOUR_S)


def boss_of(model: ScriptedModel, journal: MemoryJournal, **options: Any) -> Agent[Any, Any]:
    def act(request: ModelRequest) -> Any:
        is_told = any(message.kind == "tool" for message in request.context.messages)
        return "Then not." if is_told else Call("delegate_to_kid", {"task": "t"})

    kid = Agent(name="kid", instructions="k", model=model, limits=options.pop("kid_limits", None))
    return Agent(
        name="boss",
        instructions="b",
        model=ScriptedModel(act),
        subagents=[kid],
        journal=journal,
        **options,
    )


async def cut(agent: Agent[Any, Any], after_s: float, *, begun: bool) -> Any:
    """Run or go on for so long; returns the result if there is one by then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(after_s):
            return await (agent.resume("r") if begun else agent.run("Go.", run_id="r"))
    return None


def test_the_time_of_a_subagent_that_was_cut_off_counts_after_each_resume(virtually: Any) -> None:
    async def main() -> None:
        journal, loop = MemoryJournal(), asyncio.get_running_loop()
        agent = boss_of(Hangs(), journal, kid_limits=Limits(seconds=10))
        assert await cut(agent, 4, begun=False) is None
        assert await cut(agent, 4, begun=True) is None
        result = await cut(agent, 4, begun=True)
        assert result.output == "Then not."
        assert "seconds=10 is reached" in result.children[0].reason
        assert loop.time() == pytest.approx(10)

    virtually(main())


def test_what_a_subagent_used_before_it_was_cut_off_counts_after_each_resume(
    virtually: Any,
) -> None:
    async def main() -> None:
        journal, model = MemoryJournal(), Hangs()
        agent = boss_of(model, journal, limits=Limits(output_tokens=100))
        assert await cut(agent, 4, begun=False) is None
        kid = (await journal.load("r"))[1]
        assert len(kid.requests) == 1
        assert kid.total_s == pytest.approx(4)
        assert await cut(agent, 4, begun=True) is None
        assert await cut(agent, 4, begun=True) is None
        with pytest.raises(LimitReached, match="output_tokens=100"):
            await agent.resume("r")
        assert model.n_asked == 3

    virtually(main())


def desk(journal: MemoryJournal | None, script: list[Any], **second: Any) -> Agent[Any, Any]:
    @tool(idempotent=True)
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(8)
        return "waited"

    model = ScriptedModel(script)
    other = Agent(name="second", instructions="b", model=model, tools=[wait], **second)
    return Agent(name="first", instructions="a", model=model, handoffs=[other], journal=journal)


def test_who_takes_over_is_bound_by_its_own_deadline(virtually: Any) -> None:
    async def main() -> None:
        agent = desk(
            None,
            [Call("handoff_to_second"), Call("wait"), "never"],
            limits=Limits(seconds=5),
        )
        with pytest.raises(LimitReached, match="seconds=5"):
            await agent.run("Go.")
        assert asyncio.get_running_loop().time() == pytest.approx(5)

    virtually(main())


def test_the_time_of_who_took_over_counts_after_each_resume(virtually: Any) -> None:
    async def main() -> None:
        agent = desk(
            MemoryJournal(),
            [
                Call("handoff_to_second"),
                Call("wait"),
                ModelError("broke"),
                Call("wait"),
                ModelError("broke"),
                Call("wait"),
            ],
            limits=Limits(seconds=20),
        )
        with pytest.raises(ModelError):
            await agent.run("Go.", run_id="r")
        with pytest.raises(ModelError):
            await agent.resume("r")
        with pytest.raises(LimitReached, match="seconds=20"):
            await agent.resume("r")
        assert asyncio.get_running_loop().time() == pytest.approx(20)

    virtually(main())


def test_a_guard_of_who_takes_over_as_the_run_begins_ends_it_at_once(virtually: Any) -> None:
    class Guard(Hooks):
        async def watch_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
            await asyncio.sleep(1)
            raise ValueError("not this")

    async def main() -> None:
        second = Agent(name="second", instructions="b", model=Hangs(), hooks=[Guard()])
        first = Agent(
            name="first",
            instructions="a",
            model=ScriptedModel([Call("handoff_to_second")]),
            handoffs=[second],
            journal=MemoryJournal(),
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.run("Go.", session="s"), 4)
        with pytest.raises(ValueError, match="not this"):
            await first.run("Go on.", session="s")
        assert asyncio.get_running_loop().time() == pytest.approx(5)

    virtually(main())
