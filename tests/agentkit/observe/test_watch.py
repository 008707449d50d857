"""The live view, rendered to text: from real runs, and event by event."""

from __future__ import annotations

import asyncio
import io
import re
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from agentkit import Agent, Task, ToolContext, fan_out, tool
from agentkit.errors import ModelError, RunError
from agentkit.events import (
    AnswerRejected,
    ContextCompacted,
    Event,
    SubagentEvent,
    TextDelta,
    ToolCallStarted,
    TurnDropped,
)
from agentkit.observe.amounts import dollars, share_text, usd_text
from agentkit.observe.team_view import TeamView
from agentkit.observe.watch import Picture, render_text, watch
from agentkit.testing import Call, ScriptedModel


class Reader(Agent):
    """You read."""


class Lead(Agent):
    """You lead."""

    subagents = (Reader,)

    @tool
    async def both(self, context: ToolContext[None]) -> str:
        """Ask two readers."""
        tasks = [Task(agent=Reader, prompt="a"), Task(agent=Reader, prompt="b")]
        return str(len((await fan_out(self, tasks, within=context)).outcomes))


def script() -> ScriptedModel:
    return ScriptedModel(
        {
            "lead": [[Call("both"), Call("delegate_to_reader", {"task": "x"})], "done"],
            "reader": ["one", "two", "three"],
        }
    )


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=100, force_terminal=terminal, color_system=None)


def shown(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


async def seen(agent: Agent[Any, Any]) -> tuple[TeamView, list[str]]:
    """Run an agent; return the view at its end and each picture that differs from the last."""
    view, pictures = TeamView(agent.name), [""]
    async with agent.stream("go") as events:
        async for event in events:
            view.push(event)
            if (picture := render_text(view)) != pictures[-1]:
                pictures.append(picture)
    return view, pictures


async def test_the_tree_shows_each_agent_below_the_one_that_began_it() -> None:
    view, _ = await seen(Lead(model=script()))
    rows = render_text(view).splitlines()[2:]
    names = [row.strip().split("  ")[0] for row in rows if row.strip()]
    assert [name for name in names if "──────" not in name] == [
        "lead",
        "├─ reader",
        "├─ reader[0]",
        "└─ reader[1]",
        "total",
    ]
    assert all("done" in row for row in rows if "lead" in row or "reader" in row)


async def test_a_tree_of_several_levels_has_its_lines() -> None:
    view = TeamView("a")
    for path in (("a", "b"), ("a", "b", "c"), ("a", "d"), ("a", "b", "e")):
        view.push(SubagentEvent(path=path, run_id=".".join(path), event=TextDelta("x")))
    rows = [row.split("  writes")[0].rstrip() for row in render_text(view).splitlines()]
    assert [row.strip() for row in rows if "─ " in row] == ["├─ b", "│  ├─ c", "│  └─ e", "└─ d"]


async def test_its_numbers_are_those_of_the_result() -> None:
    agent = Lead(model=script())
    view = TeamView("lead")
    async with agent.stream("go") as events:
        async for event in events:
            view.push(event)
    usage = events.result.usage
    assert view.usage == usage
    total = render_text(view).splitlines()[-1].split()
    assert total == [
        "total",
        "5",
        f"{usage.input_tokens:,}",
        share_text(usage.hit_ratio),
        f"{usage.output_tokens:,}",
    ]


async def test_it_says_what_each_agent_does_now() -> None:
    _, pictures = await seen(Lead(model=script()))
    text = "\n".join(pictures)
    assert "calls both" in text
    assert "waits for both, delegate_to" in text
    assert "writes" in text
    assert "waits for delegate_to_reader" in text or "waits for both " in text


def test_a_failure_that_passes_and_a_new_beginning_are_said() -> None:
    view = TeamView("lead")
    dropped = TurnDropped(index=0, error=ModelError("overloaded"), wait_s=2.0)
    assert view.push(dropped) == (True, "lead: asks again in 2 s: overloaded")
    anew = ContextCompacted(turn=3, tokens_before=9_000, tokens_after=800, reason="long")
    assert view.push(anew) == (True, "lead: begins anew (length): 9,000 -> 800 tokens")
    rejected = AnswerRejected(index=4, reason="It does not fit:\n- eur")
    assert view.push(rejected) == (True, "lead: the answer is rejected: It does not fit: - eur")
    assert view.agents[0].doing == "asks again"


def test_a_subagent_that_failed_is_not_shown_as_at_work_for_ever() -> None:
    view = TeamView("lead")
    below: Event = SubagentEvent(path=("lead", "reader"), run_id="r", event=TextDelta("x"))
    view.push(below)
    assert view.agents[1].doing == "writes"
    view.push(TextDelta("The reader failed."))
    assert view.agents[1].doing == "ended"


async def test_without_a_terminal_there_is_a_line_for_each_turn_and_end() -> None:
    where = console(terminal=False)
    async with Lead(model=script()).stream("go") as events:
        await watch(events, console=where)
    lines = shown(where).splitlines()
    assert lines[0].startswith("lead: turn 1: ")
    assert lines[0].endswith("; calls both, delegate_to_reader")
    assert any(line.startswith("lead/reader[1]: turn 1: ") for line in lines)
    assert lines[-1] == "lead: done"
    assert "\x1b" not in shown(where)


async def test_on_a_terminal_the_last_picture_stays() -> None:
    where = console(terminal=True)
    heard: list[Event] = []
    async with Lead(model=script()).stream("go") as events:
        await watch(events, console=where, on_event=heard.append)
    view = TeamView("lead")
    for event in heard:
        view.push(event)
    picture = _rows(render_text(view))
    assert _rows(shown(where))[-len(picture) :] == picture


def _rows(text: str) -> list[str]:
    plain = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", text)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


async def test_what_the_run_raises_goes_through() -> None:
    agent = Lead(model=ScriptedModel({"lead": [ModelError("broken")]}))
    with pytest.raises(RunError, match="broken"):
        async with agent.stream("go") as events:
            await watch(events, console=console(terminal=False))


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_the_last_picture_says_how_a_run_ended_that_has_no_answer(how: str) -> None:
    @tool
    async def dig() -> str:
        """Dig."""
        if how == "cancelled":
            task.cancel()
            await asyncio.Event().wait()
        return "sand"

    model = ScriptedModel([Call("dig"), ModelError("on fire")])
    agent = Agent(name="digger", model=model, instructions="x", tools=[dig], max_retries=0)
    screen = console(terminal=True)

    async def main() -> None:
        async with agent.stream("x") as events:
            await watch(events, console=screen)

    task = asyncio.create_task(main())
    with pytest.raises((ModelError, asyncio.CancelledError)):
        await task
    last = [line for line in shown(screen).splitlines() if "digger" in line][-1]
    assert re.search(rf"digger +{how}", last)


def test_a_picture_is_drawn_at_most_ten_times_a_second_and_at_once_when_something_changes() -> None:
    now = [0.0]
    drawn: list[float] = []

    class Screen:
        def update(self, table: object, *, refresh: bool) -> None:
            drawn.append(now[0])

    picture = Picture(
        console(terminal=True),
        Screen(),  # type: ignore[arg-type]
        clock=lambda: now[0],
    )
    view = TeamView("lead")
    for n in range(100):
        now[0] = n / 100
        has_changed, line = view.push(TextDelta("x"))
        picture.show(view, line, at_once=has_changed)
    assert len(drawn) == 10
    has_changed, line = view.push(ToolCallStarted(index=0, id="1", name="add"))
    picture.show(view, line, at_once=has_changed)
    assert drawn[-1] == now[0]


def test_dollars_have_three_digits_that_count() -> None:
    assert dollars(Decimal("0.00123456")) == "$0.00123"
    assert dollars(Decimal("0.5")) == "$0.50"
    assert dollars(Decimal("1234.5")) == "$1,234.50"
    assert usd_text(None) == ""


def test_nearly_all_is_not_all_and_next_to_nothing_is_not_nothing() -> None:
    shares = [0.0, 0.001, 0.5, 0.999, 1.0]
    assert [share_text(share) for share in shares] == ["0%", "1%", "50%", "99%", "100%"]
