"""What counts against limits counts in every process, whatever has ended the ones before."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Deny,
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
