"""What counts against limits counts in every process, whatever has ended the ones before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Deny,
    JournalError,
    LimitReached,
    Limits,
    MemoryJournal,
    ModelError,
    OutputError,
    tool,
)
from agentkit.events import ModelEvent
from agentkit.limits import LimitUse
from agentkit.models.base import ModelRequest
from agentkit.saved import SavedRun
from agentkit.testing import Call, Say, ScriptedModel


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@tool
def look() -> str:
    """Look."""
    return "nothing"


class Breaks(ScriptedModel):
    """Says nothing of what it uses, and breaks off after twenty pieces."""

    def __init__(self, error: Exception) -> None:
        super().__init__(lambda _: Say("word " * 400))
        self._error = error
        self.n_asked = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.n_asked += 1
        n_events = 0
        async for event in super().stream(request):
            yield event
            n_events += 1
            if n_events == 20:
                raise self._error


async def resumed(agent: Agent[Any, Any], error: type[Exception]) -> tuple[LimitUse, ...]:
    """Run, and go on after each failure until a limit is reached; return what was used then."""
    with pytest.raises(error):
        await agent.run("Go.", run_id="r")
    for _ in range(20):
        with pytest.raises((error, LimitReached)) as caught:
            await agent.resume("r")
        if isinstance(caught.value, LimitReached) and caught.value.partial is not None:
            return caught.value.partial.limits
    pytest.fail("the limit does not hold over resumes")


@pytest.mark.parametrize("error", [ModelError("broke"), RuntimeError("a defect")])
async def test_an_estimate_of_what_broke_off_counts_after_a_resume(error: Exception) -> None:
    model = Breaks(error)
    journal = MemoryJournal()
    agent = Agent(model=model, instructions="x", journal=journal, limits=Limits(output_tokens=100))
    (use,) = await resumed(agent, type(error))
    assert model.n_asked == use.n_unknown == 3
    assert use.used == use.assumed == 3 * -(-20 * 7 // 4)
    (saved,) = await journal.load("r")
    assert SavedRun.from_json(saved.to_json()) == saved
    assert [request.guess is not None for request in saved.requests] == [True] * 3


async def test_turns_that_are_no_part_of_the_context_count_after_a_resume() -> None:
    model = ScriptedModel(["no number"] * 20)
    agent = Agent(
        model=model,
        instructions="x",
        output_type=int,
        max_repairs=0,
        limits=Limits(turns=3),
        journal=MemoryJournal(),
    )
    (use,) = await resumed(agent, OutputError)
    assert use.used == len(model.calls) == 3


async def test_calls_that_a_person_refused_count_after_each_resume() -> None:
    model = ScriptedModel([[Call("pay")] * 3, [Call("look")] * 2, "never"])
    agent = Agent(
        model=model,
        instructions="x",
        tools=[pay, look],
        limits=Limits(tool_calls=4),
        journal=MemoryJournal(),
    )
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run("Go.", run_id="r")
    first, *others = caught.value.paused.pending
    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume("r", {each.id: Deny("no") for each in others})
    with pytest.raises(LimitReached, match=r"tool_calls=4 is reached: 3 used") as reached:
        await agent.resume("r", {first.id: Deny("no")})
    assert reached.value.partial is not None
    assert reached.value.partial.limits[0].used == Decimal(3)


async def test_a_request_that_was_under_way_when_a_process_vanished_counts_after_a_resume() -> None:
    model = Breaks(JournalError("the process is gone"))  # nothing is kept of what follows
    journal = MemoryJournal()
    limits = Limits(output_tokens=2_500, input_tokens=1_000_000)
    agent = Agent(model=model, instructions="x", journal=journal, limits=limits)
    by_input, by_output = await resumed(agent, JournalError)
    assert model.n_asked == by_output.n_unknown == by_input.n_unknown == 3
    assert by_output.used == by_output.assumed == 3 * 1_000
    assert 0 < by_input.used == by_input.assumed < 3 * 100
    (saved,) = await journal.load("r")
    assert SavedRun.from_json(saved.to_json()) == saved


@pytest.mark.parametrize("error", [ModelError("broke"), JournalError("the process is gone")])
async def test_what_nobody_has_reported_counts_in_limits_that_only_a_resume_has(
    error: Exception,
) -> None:
    model, journal = Breaks(error), MemoryJournal()
    agent = Agent(model=model, instructions="x", journal=journal)
    with pytest.raises(type(error)):
        await agent.run("Go.", run_id="r")
    with pytest.raises(LimitReached, match="output_tokens=30 is reached"):
        await agent.resume("r", limits=Limits(output_tokens=30))
    assert model.n_asked == 1


class Ends:
    """Ends a run once, at a place, while something is under way there."""

    def __init__(self, place: str, error: Exception | None) -> None:
        self._place = place
        self._error = error
        self.task: asyncio.Task[Any] | None = None

    async def at(self, place: str) -> None:
        if place != self._place or self.task is None:
            return
        task, self.task = self.task, None
        if self._error is not None:
            raise self._error
        task.cancel()
        await asyncio.Event().wait()


class Asked(ScriptedModel):
    """A lead asks twice, and a helper once; each may end while it answers."""

    def __init__(self, ends: Ends) -> None:
        super().__init__(self._said)
        self._ends = ends
        self.n_asked = 0

    def _said(self, request: ModelRequest) -> Any:
        if request.agent == "helper" or request.context.messages[-1].kind != "user":
            return "Done."
        return [Call("stop"), Call("delegate_to_helper", {"task": "Help."})]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.n_asked += 1
        async for event in super().stream(request):
            yield event
            last = request.context.messages[-1].kind
            await self._ends.at(f"{request.agent} answers {last}")


@pytest.mark.parametrize("error", [JournalError("gone"), RuntimeError("a defect"), None])
@pytest.mark.parametrize(
    "place", ["lead answers user", "lead answers tool", "helper answers user", "tool"]
)
async def test_each_request_that_was_sent_is_counted_once_however_its_process_ended(
    error: Exception | None, place: str
) -> None:
    """A journal that fails keeps nothing of what came after the last step: as a lost process."""
    ends, journal = Ends(place, error), MemoryJournal()
    model = Asked(ends)

    @tool(idempotent=True)
    async def stop() -> str:
        """Stop."""
        await ends.at("tool")
        return "stopped"

    helper = Agent(model=model, name="helper", instructions="x")
    lead = Agent(
        model=model,
        name="lead",
        instructions="x",
        tools=[stop],
        subagents=[helper],
        journal=journal,
    )
    ends.task = asyncio.create_task(lead.run("Go.", run_id="r"))
    with contextlib.suppress(asyncio.CancelledError, JournalError, RuntimeError):
        await ends.task
    assert ends.task is None
    if (await journal.load("r"))[0].status != "done":  # a subagent's failure is a result
        assert (await lead.resume("r")).output == "Done."
    saved = await journal.load("r")
    assert sum(len(run.requests) for run in saved) == model.n_asked >= 3
