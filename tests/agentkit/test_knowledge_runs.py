"""New runs begin with the latest documents, and what a summary stands for is still told."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from agentkit import Agent, CompactionRule
from agentkit.blocks import Message, ToolMessage
from agentkit.context.turns import is_delta
from agentkit.events import ContextCompacted
from agentkit.knowledge import Knowledge
from agentkit.knowledge.shown import outdated
from agentkit.models import ModelRequest
from agentkit.result import RunResult
from agentkit.testing import Call, Say, ScriptedModel, assert_prefix_stable
from tests.agentkit.digger import is_summary_request, run_all
from tests.agentkit.guide import (
    RULES,
    deltas,
    documents,
    guide,
    kinds,
    make_knowledge,
    says,
)

SUMMARY = "We spoke of opening hours."


@pytest.fixture
def knowledge() -> Knowledge:
    return make_knowledge()


def test_before_the_first_run_new_documents_are_simply_the_front(knowledge: Knowledge) -> None:
    """Nothing is cached yet, so nothing is lost."""
    model = says()
    agent = guide(model, knowledge)

    async def main() -> None:
        async with agent:  # the team is built here
            knowledge.put("hours.md", "We open at ten.")
            await agent.run("When?")

    asyncio.run(main())
    request = model.calls[0].request
    assert not deltas(request.context)
    assert "We open at ten." in request.wire.decode()
    assert request.epoch == 1


def test_a_new_run_begins_with_the_old_front_and_the_change_where_that_is_cheaper() -> None:
    knowledge = Knowledge()
    knowledge.put_all({f"doc{n:02}.md": f"Text {n}. " * 150 for n in range(20)})
    model = says()
    agent = guide(model, knowledge)
    agent.run_sync("First?")
    knowledge.put("doc00.md", "Nothing.")
    agent.run_sync("Second?")

    first, second = (call.request for call in model.calls)
    assert second.context.front == first.context.front
    assert kinds(second.context) == ["delta", "user"]
    assert "'doc00.md' changed" in deltas(second.context)[0]
    assert second.epoch == 0


def test_sooner_or_later_the_front_is_written_anew_and_then_stays() -> None:
    knowledge = Knowledge()
    knowledge.put_all({f"doc{n:02}.md": f"Text {n}. " * 150 for n in range(20)})
    model = says()
    agent = guide(model, knowledge)
    agent.run_sync("First?")
    knowledge.put("doc10.md", "Another text. " * 150)
    for n in range(60):
        agent.run_sync(f"Question {n}?")

    requests = [call.request for call in model.calls]
    epochs = [request.epoch for request in requests]
    assert epochs == sorted(epochs)
    assert set(epochs) == {0, 1}
    assert 2 < epochs.index(1) < 60
    for request in requests[1:]:
        said = request.wire.decode()
        assert ("'doc10.md' changed" in said) == (request.epoch == 0)
        assert "Another text." in said
    assert len({r.context.front.digest for r in requests if r.epoch == 1}) == 1


def test_subagents_begin_with_the_latest_documents_too(knowledge: Knowledge) -> None:
    child: Agent[Any, Any] = Agent(name="expert", instructions="You know.", knowledge=knowledge)

    def delegate(request: ModelRequest) -> Any:
        if request.agent == "expert":
            return "I know."
        asked = len([m for m in request.context.messages if isinstance(m, ToolMessage)])
        if asked == 1:
            knowledge.put("hours.md", "We open at ten.")
        return "Done." if asked == 2 else Call("delegate_to_expert", {"task": f"{asked}?"})

    model = ScriptedModel(delegate)
    Agent(model=model, name="boss", rules=RULES, subagents=[child]).run_sync("?")

    first, second = (call.request for call in model.calls_of("expert"))
    assert "We open at ten." not in first.wire.decode()
    assert "We open at ten." in second.wire.decode()


def test_one_knowledge_serves_many_threads_of_one_agent(knowledge: Knowledge) -> None:
    """Editions change under a lock: each run begins with one of them, whole."""
    model = says()
    agent = guide(model, knowledge)

    async def one(number: int) -> RunResult[Any]:
        if number % 5 == 0:
            await asyncio.to_thread(knowledge.put, "hours.md", f"We open at {number}.")
        return await agent.run(f"Question {number}?")

    async def many() -> list[RunResult[Any]]:
        return await asyncio.gather(*(one(number) for number in range(30)))

    for result in asyncio.run(many()):
        assert len(documents(result.context)) == 3
    assert_prefix_stable(model.calls)


# With a summary.


SMALL = CompactionRule(trigger_tokens=6_000, limit_tokens=9_000, summary_tokens=300)


def test_what_was_found_before_a_summary_is_still_told_when_it_changes(
    knowledge: Knowledge,
) -> None:
    turns = itertools.count()

    def step(request: ModelRequest) -> Any:
        if any("Write that summary" in getattr(m, "text", "") for m in request.context.messages):
            return SUMMARY
        turn = next(turns)
        if turn == 0:
            return Call("search_knowledge", {"query": "ticket"})
        if turn == 16:
            knowledge.remove("prices.md")
        return "Done." if turn == 18 else [Say("Next."), Call("dig", {"hole": turn})]

    def dig(hole: int) -> str:
        """Dig."""
        return f"Sand in {hole}. " * 180

    model = ScriptedModel(step)
    agent = guide(model, knowledge, knowledge_tokens=10, tools=[dig], compaction=SMALL)
    result = agent.run_sync("How much?")

    requests = [call.request for call in model.calls]
    assert requests[-1].epoch >= 1
    assert "[prices.md" not in requests[-1].wire.decode()
    (told,) = deltas(result.context)
    assert "'prices.md' was withdrawn" in told
    assert_prefix_stable(model.calls)


def test_a_summary_drops_what_was_told_where_it_is_longer_than_the_newest_front() -> None:
    """Else old texts stay for ever; they could be so long that no summary makes it short."""
    knowledge = Knowledge()
    knowledge.put_all({"a.md": "Text a. " * 150, "b.md": "Text b. " * 150, "c.md": "Wrong."})
    turns = itertools.count()

    def step(request: ModelRequest) -> Any:
        if any("Write that summary" in getattr(m, "text", "") for m in request.context.messages):
            return SUMMARY
        turn = next(turns)
        if 8 < turn < 12:
            knowledge.put_all(dict.fromkeys(("a.md", "b.md"), f"Edition {turn}. " * 150))
        if turn == 9:
            knowledge.remove("c.md")
        return "Done." if turn == 18 else [Say("Next."), Call("dig", {"hole": turn})]

    def dig(hole: int) -> str:
        """Dig."""
        return f"Sand in {hole}. " * 180

    model = ScriptedModel(step)
    rule = CompactionRule(trigger_tokens=12_000, limit_tokens=14_000)
    agent = guide(model, knowledge, tools=[dig], compaction=rule)
    result, events = run_all(agent, "How much?")

    (begun,) = [event for event in events if isinstance(event, ContextCompacted)]
    assert begun.cause == "length"
    asked = [call.request for call in model.calls if not is_summary_request(call.request)]
    before = [request for request in asked if request.epoch == 0][-1]
    after = next(request for request in asked if request.epoch == 1)
    assert len(deltas(before.context)) >= 2
    (note,) = deltas(after.context)
    assert "'c.md' was withdrawn" in note
    assert "Edition" not in note
    shown = after.wire.decode()
    assert 2 * 145 < shown.count("Edition 11. ") <= 2 * 150  # chunks may cut one in two
    assert "Edition 10." not in shown
    assert outdated(result.context, knowledge, knowledge.version, everything=True) == ()
    assert [m for m in result.messages if is_delta(m)][-1].text == note


async def test_what_a_summary_speaks_of_is_told_also_in_the_next_run(knowledge: Knowledge) -> None:
    """Its search lies in an epoch before, of which the context has only the summary."""
    turns = itertools.count()

    def step(request: ModelRequest) -> Any:
        if any("Write that summary" in getattr(m, "text", "") for m in request.context.messages):
            return SUMMARY
        turn = next(turns)
        if turn == 0:
            return Call("search_knowledge", {"query": "ticket"})
        return "Done." if turn >= 18 else [Say("Next."), Call("dig", {"hole": turn})]

    def dig(hole: int) -> str:
        """Dig."""
        return f"Sand in {hole}. " * 180

    agent = guide(
        ScriptedModel(step), knowledge, knowledge_tokens=10, tools=[dig], compaction=SMALL
    )
    result = await agent.run("How much?")
    assert result.requests[-1].epoch >= 1
    knowledge.remove("prices.md")
    result = await agent.run("How much?", context=result.context)

    (told,) = deltas(result.context)
    assert "'prices.md' was withdrawn" in told


def test_what_was_told_before_a_summary_is_carried_over_it(knowledge: Knowledge) -> None:
    turns = itertools.count()

    def step(request: ModelRequest) -> Any:
        if any("Write that summary" in getattr(m, "text", "") for m in request.context.messages):
            return SUMMARY
        turn = next(turns)
        if turn == 1:
            knowledge.remove("prices.md")
        return "Done." if turn == 14 else [Say("Next."), Call("dig", {"hole": turn})]

    def dig(hole: int) -> str:
        """Dig."""
        return f"Sand in {hole}. " * 180

    model = ScriptedModel(step)
    agent = guide(model, knowledge, tools=[dig], compaction=SMALL)
    result = agent.run_sync("How much?")

    assert model.calls[-1].request.epoch >= 1
    assert len(deltas(result.context)) == 1
    said: list[Message] = [m for m in result.messages if is_delta(m)]
    assert len(said) == 1
