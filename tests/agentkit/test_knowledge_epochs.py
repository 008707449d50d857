"""Documents that change again and again: told, or begun anew with the newest, as is cheaper."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from agentkit import Agent, Context, Document, RequestRefused
from agentkit.blocks import AssistantMessage, Thinking, ToolMessage
from agentkit.caching.verdict import Cause
from agentkit.events import ContextCompacted, Event
from agentkit.fake import Ask
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.knowledge import Knowledge
from agentkit.models import ModelRequest
from agentkit.result import RunResult
from agentkit.testing import Call, Say, ScriptedModel
from tests.agentkit.digger import run_all
from tests.agentkit.guide import deltas, documents
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld

N_DOCUMENTS = 6


def library() -> Knowledge:
    knowledge = Knowledge()
    knowledge.put_all({uri(n): f"Document {n} as it was. " * 115 for n in range(N_DOCUMENTS)})
    return knowledge


def uri(number: int) -> str:
    return f"doc{number % N_DOCUMENTS}.md"


def edit_two(knowledge: Knowledge, turn: int) -> None:
    for number in (2 * turn, 2 * turn + 1):
        knowledge.put(uri(number), edition(number))


def edition(number: int) -> str:
    return f"Document {number % N_DOCUMENTS} in edition {number}. " * 90


def reader(model: Any, knowledge: Knowledge, **more: Any) -> Agent[Any, Any]:
    return Agent(model=model, name="reader", instructions="Read.", knowledge=knowledge, **more)


async def converse(
    agent: Agent[Any, Any], knowledge: Knowledge, turns: int = 12
) -> tuple[list[RunResult[Any]], list[Event]]:
    """Hold one conversation, with two documents changed before each turn but the first."""
    results: list[RunResult[Any]] = []
    events: list[Event] = []
    for turn in range(turns):
        if turn:
            edit_two(knowledge, turn)
        context = results[-1].context if results else None
        async with agent.stream(f"Question {turn}?", context=context) as stream:
            events += [event async for event in stream]
        results.append(stream.result)
    return results, events


def begun_anew(events: list[Event]) -> list[ContextCompacted]:
    return [event for event in events if isinstance(event, ContextCompacted)]


def shown(context: Context, number: int) -> int:
    """How often a context has an edition of a document."""
    in_front: dict[str, str] = {}
    for segment in context.front:
        if isinstance(document := segment.content, Document):
            name = document.uri.partition("#")[0]
            in_front[name] = in_front.get(name, "") + document.text
    return sum(text.count(edition(number)) for text in (*in_front.values(), *deltas(context)))


async def test_a_conversation_does_not_carry_dead_text_to_its_end() -> None:
    """4,663 tokens became 26,187, of which nearly all was superseded; no epoch was begun."""
    knowledge = library()
    model = ScriptedModel(lambda request: "Read.")
    results, events = await converse(reader(model, knowledge), knowledge)

    lengths = [result.requests[0].usage.input_tokens or 0 for result in results]
    assert max(lengths) < 3 * lengths[0]
    told = begun_anew(events)
    assert 1 <= len(told) <= 4
    for event in told:
        assert event.cause == "documents"
        assert event.tokens_after < event.tokens_before * 0.7
        assert "begin anew" in event.reason
    for result in results:
        for text in knowledge.etags():
            assert any(document.startswith(text) for document in documents(result.context))
    last = results[-1]
    for number in range(2 * 9, 2 * 11 + 2):  # the latest edition of each
        assert shown(last.context, number) == 1
    questions = [
        text for m in last.context.messages if (text := getattr(m, "text", "")).endswith("?")
    ]
    assert questions == [f"Question {turn}?" for turn in range(12)]


async def test_what_a_run_has_added_is_told_whole_and_once_over_an_epoch() -> None:
    knowledge = library()
    results, events = await converse(reader(ScriptedModel(lambda r: "Read."), knowledge), knowledge)

    assert begun_anew(events)
    for result in results[1:]:
        change, question, answer = result.messages
        assert change.text.startswith("What follows replaces")  # type: ignore[union-attr]
        assert (question.kind, answer.kind) == ("user", "assistant")
        assert result.messages == result.context.messages[-3:]


def in_a_run(
    turns: int, knowledge: Knowledge, step: Any = None
) -> tuple[RunResult[Any], list[Any]]:
    """One run, with documents changed while its tools run."""

    def look(n: int) -> str:
        """Look."""
        edit_two(knowledge, n)
        return f"Nothing in {n}."

    counted = itertools.count(1)

    def said(request: ModelRequest) -> Any:
        n = next(counted)
        return "Done." if n == turns else [Say("Next."), Call("look", {"n": n})]

    agent = reader(ScriptedModel(step or said), knowledge, tools=[look], max_turns=50)
    return run_all(agent, "Look.")


def test_during_a_run_an_epoch_begins_behind_the_results_of_calls() -> None:
    knowledge = library()
    result, events = in_a_run(12, knowledge)

    assert begun_anew(events)
    assert not result.context.open_calls
    calls = [m for m in result.context.messages if isinstance(m, AssistantMessage) and m.calls]
    results = [m for m in result.context.messages if isinstance(m, ToolMessage)]
    assert len(calls) == len(results) == 11
    assert [m for m in result.messages if isinstance(m, ToolMessage)] == results
    epochs = [record.epoch for record in result.requests]
    assert epochs == sorted(epochs)
    assert epochs[-1] == len(begun_anew(events))


def test_a_model_that_refuses_the_new_epoch_goes_on_with_the_message_and_is_asked_no_more() -> None:
    knowledge = library()
    counted = itertools.count(1)
    refused: list[ModelRequest] = []

    def step(request: ModelRequest) -> Any:
        if "Those at the beginning are the latest" in request.wire.decode():
            refused.append(request)
            raise RequestRefused("thinking must be replayed")
        n = next(counted)
        return "Done." if n == 12 else [Say("Next."), Call("look", {"n": n})]

    result, events = in_a_run(12, knowledge, step)

    assert len(refused) == len(begun_anew(events)) == 1
    assert len(deltas(result.context)) == 11
    for number in range(2 * 9, 2 * 11 + 2):
        assert shown(result.context, number) == 1


async def test_a_withdrawn_document_stays_said_in_a_new_epoch() -> None:
    knowledge = library()
    agent = reader(ScriptedModel(lambda r: "Read."), knowledge)
    result = await agent.run("Read.")
    knowledge.remove("doc0.md")
    context = (await agent.run("And now?", context=result.context)).context
    events: list[Event] = []
    for turn in range(1, 9):
        knowledge.put_all({uri(n): edition(n + turn * N_DOCUMENTS) for n in range(1, 4)})
        async with agent.stream("?", context=context) as stream:
            events += [event async for event in stream]
        context = stream.result.context

    assert begun_anew(events)
    assert "'doc0.md' was withdrawn" in "".join(deltas(context))
    assert not any(each.startswith("doc0.md") for each in documents(context))


# On the wires.


def world_of(
    on_turn: Callable[[int], object], provider: str = "anthropic", turns: int = 24
) -> HostedWorld:
    said = itertools.count(1)

    def respond(ask: Ask) -> FakeReply:
        number = next(said)
        on_turn(number)
        calls = (FakeCall("look", f'{{ "n": {number} }}'),) if number % turns else ()
        return FakeReply(text="Next.", calls=calls, thinking="Hm.", first_byte_s=1.0, seconds=2.0)

    return HostedWorld(respond, provider)


def look(n: int) -> str:
    """Look."""
    return f"Nothing in {n}. " * 40


def test_on_the_wire_each_request_extends_the_last_but_where_an_epoch_begins() -> None:
    knowledge = library()
    world = world_of(lambda n: edit_two(knowledge, n))
    agent = reader(world.model, knowledge, tools=[look], max_turns=50)
    result = world.run(lambda: agent.run("Look."))

    epochs = [record.epoch for record in result.requests]
    assert max(epochs) >= 1
    for (before, after), (old, new) in zip(
        itertools.pairwise(world.wires), itertools.pairwise(epochs), strict=True
    ):
        if old == new:
            assert after[: len(before)] == before
        else:
            assert after[0] == before[0]  # the tools
    for record in result.requests[1:]:
        assert record.verdict is not None
        shortfall = record.verdict.shortfall
        if shortfall is not None and shortfall.lost_tokens:
            assert shortfall.cause is Cause.COMPACTED
            assert "on purpose" in shortfall.detail
            assert "trigger_tokens" not in shortfall.detail


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_api_takes_a_conversation_that_was_begun_anew(provider: str) -> None:
    knowledge = library()
    world = world_of(lambda n: edit_two(knowledge, n), provider)
    agent = reader(world.model, knowledge, tools=[look], max_turns=50)
    result = world.run(lambda: agent.run("Look."))

    assert len(world.served) == 24
    assert max(record.epoch for record in result.requests) >= 1
    said = [m for m in result.messages if isinstance(m, AssistantMessage)]
    assert len(said) == 24
    if provider == "anthropic":
        assert all(isinstance(message.blocks[0], Thinking) for message in said)
