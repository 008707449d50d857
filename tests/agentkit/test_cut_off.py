"""Calls that are cut off have time to clean up, and nothing of them is done behind the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentkit import (
    Agent,
    Approve,
    HookContext,
    Hooks,
    LimitReached,
    Limits,
    MemoryJournal,
    RunError,
    ToolContext,
    ToolOutput,
    tool,
)
from agentkit.blocks import ToolCall, ToolMessage
from agentkit.errors import AgentkitError
from agentkit.testing import Call, ScriptedModel, Step
from tests.agentkit.test_deadlines import run_virtually


async def slept(seconds: float) -> None:
    """Sleep that long, whoever cancels it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


def worker(journal: MemoryJournal, script: list[Step], **more: Any) -> Agent[Any, Any]:
    return Agent(name="a", instructions="i", model=ScriptedModel(script), journal=journal, **more)


def test_a_call_that_outlives_its_cancellation_changes_nothing_behind_the_end() -> None:
    seen: list[str] = []

    @tool
    async def stubborn() -> str:
        """Take 7 s, whatever happens."""
        await slept(7)
        seen.append("tool")
        return "paid"

    class Seeing(Hooks):
        async def after_tool(
            self, at: HookContext[Any], call: ToolCall, output: ToolOutput
        ) -> ToolOutput:
            seen.append("hook")
            return output

    async def main() -> None:
        journal = MemoryJournal()
        agent = worker(
            journal,
            [Call("stubborn", {}), "Next."],
            tools=[stubborn],
            hooks=[Seeing()],
            limits=Limits(seconds=0.5),
        )
        with pytest.raises(LimitReached):
            await agent.run("Go.", run_id="r", session="s")
        (ended,) = await journal.load("r")
        await asyncio.sleep(5)
        assert seen == ["tool"]
        (later,) = await journal.load("r")
        assert (later, later.status) == (ended, "failed")
        result = await agent.run("Next?", session="s")
        assert result.output == "Next."

    run_virtually(main())


@pytest.mark.parametrize("where", ["approve", "before_tool"])
def test_a_call_that_is_allowed_behind_its_cancellation_is_not_run(where: str) -> None:
    ran: list[int] = []

    @tool(requires_approval=True)
    async def pay(x: int) -> str:
        """Pay."""
        ran.append(x)
        return "paid"

    class Slow(Hooks):
        async def before_tool(self, at: HookContext[Any], call: ToolCall) -> None:
            await slept(3 if where == "before_tool" else 0)

    class Asking(Agent[Any, Any]):
        """Asks a person, who takes long."""

        async def approve(self, call: ToolCall, context: ToolContext[Any]) -> Approve | None:
            await slept(3 if where == "approve" else 0)
            return Approve()

    async def main() -> None:
        agent = Asking(
            name="a",
            model=ScriptedModel([Call("pay", {"x": 1})]),
            tools=[pay],
            hooks=[Slow()],
            limits=Limits(seconds=0.5),
        )
        with pytest.raises(LimitReached):
            await agent.run("Go.")
        await asyncio.sleep(9)
        assert ran == []

    run_virtually(main())


def test_who_is_cancelled_twice_waits_for_the_calls_to_clean_up_all_the_same() -> None:
    log: list[str] = []

    @tool
    async def slow() -> str:
        """Take long, and clean up."""
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            log.append("cleaned")
        return "done"

    async def main() -> None:
        journal = MemoryJournal()
        agent = worker(journal, [Call("slow", {})], tools=[slow])
        task = asyncio.create_task(agent.run("Go.", run_id="r"))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["cleaned"]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        (run,) = await journal.load("r")
        assert run.status == "cancelled"

    run_virtually(main())


def test_another_task_may_close_a_run_whose_next_event_is_waited_for() -> None:
    ended: list[str] = []

    @tool
    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("tool")
        return "done"

    async def main() -> None:
        journal = MemoryJournal()
        stream = worker(journal, [Call("slow", {})], tools=[slow]).stream("Go.", run_id="r")

        async def read() -> str:
            async for _ in stream:
                pass
            await asyncio.sleep(0)  # it was not cancelled: it can go on
            return "read"

        reader = asyncio.create_task(read())
        await asyncio.sleep(1)
        await asyncio.gather(stream.aclose(), stream.aclose())
        assert ended == ["tool"]
        assert await reader == "read"
        assert reader.cancelling() == 0
        await stream.aclose()
        (run,) = await journal.load("r")
        assert run.status == "cancelled"

    run_virtually(main())


def test_a_reader_that_is_cancelled_while_its_run_is_closed_is_cancelled() -> None:
    @tool
    async def slow() -> str:
        """Take long, and clean up."""
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
        return "done"

    async def main() -> None:
        stream = worker(MemoryJournal(), [Call("slow", {})], tools=[slow]).stream("Go.")

        async def read() -> None:
            async for _ in stream:
                pass

        reader = asyncio.create_task(read())
        await asyncio.sleep(1)
        closing = asyncio.create_task(stream.aclose())
        await asyncio.sleep(0.1)
        reader.cancel()
        await closing
        with pytest.raises(asyncio.CancelledError):
            await reader

    run_virtually(main())


async def test_a_hook_cannot_close_the_run_that_waits_for_it_and_is_told_so() -> None:
    class Closing(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> None:
            await stream.aclose()

    agent = worker(MemoryJournal(), ["Hello."], hooks=[Closing()])
    stream = agent.stream("Go.")
    with pytest.raises(AgentkitError, match="from within"):
        async for _ in stream:
            pass


async def cut_short() -> None:
    """Wait for something that is cancelled, as careless code does."""
    inner = asyncio.create_task(asyncio.sleep(10))
    inner.cancel()
    await inner


async def test_a_hook_that_lets_a_cancellation_of_its_own_out_does_not_cancel_the_run() -> None:
    class Careless(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> None:
            await cut_short()

    journal = MemoryJournal()
    with pytest.raises(RunError, match="nobody has cancelled the run") as caught:
        await worker(journal, ["Hello."], hooks=[Careless()]).run("Go.", run_id="r")
    assert caught.value.partial is not None
    (run,) = await journal.load("r")
    assert run.status == "failed"


async def test_a_tool_that_lets_a_cancellation_of_its_own_out_has_failed_and_the_run_goes_on() -> (
    None
):
    @tool
    async def careless() -> str:
        """Be careless."""
        await cut_short()
        return "done"

    agent = worker(MemoryJournal(), [Call("careless", {}), "Done."], tools=[careless])
    result = await agent.run("Go.")
    assert result.output == "Done."
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert message.results[0].is_error
    assert "was cancelled" in message.results[0].content


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_whatever_ends_a_run_is_kept_as_its_end() -> None:
    class Broken(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> None:
            raise Unspeakable

    journal = MemoryJournal()
    with pytest.raises(Unspeakable):
        await worker(journal, ["Hello."], hooks=[Broken()]).run("Go.", run_id="r")
    (run,) = await journal.load("r")
    assert run.status == "failed"
    assert run.end is not None
    assert run.end.error == "Unspeakable: (its text cannot be shown)"
