"""Documents that change, on the providers' wires: bytes are added at the end, and none moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from agentkit.caching.report import RequestRecord
from agentkit.caching.verdict import Cause
from agentkit.fake import Ask
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.knowledge import Knowledge
from tests.agentkit.guide import (
    deltas,
    guide,
    make_knowledge,
)
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld


@pytest.fixture
def knowledge() -> Knowledge:
    return make_knowledge()


def hosted(
    turns: int, on_turn: Callable[[int], object], provider: str = "anthropic"
) -> HostedWorld:
    said = itertools.count(1)

    def respond(ask: Ask) -> FakeReply:
        number = next(said)
        on_turn(number)
        calls = (FakeCall("look", f'{{ "n": {number} }}'),) if number % turns else ()
        return FakeReply(text="Next.", calls=calls, first_byte_s=1.0, seconds=2.0)

    return HostedWorld(respond, provider)


def look(n: int) -> str:
    """Look."""
    return f"Nothing in {n}. " * 40


def test_on_the_wire_a_change_adds_bytes_at_the_end_and_moves_none(knowledge: Knowledge) -> None:
    """C19: edit memory mid-session -> only bytes behind what was sent change."""

    def on_turn(number: int) -> None:
        if number == 3:
            knowledge.put("hours.md", "We open at ten.")

    world = hosted(6, on_turn)
    agent = guide(world.model, knowledge, tools=[look])
    result = world.run(lambda: agent.run("When?"))

    wires = world.wires
    assert len(wires) == 6
    for before, after in itertools.pairwise(wires):
        assert after[: len(before)] == before
    role, piece = wires[3][-1]
    assert role == "user"
    assert "'hours.md' changed" in piece
    for earlier, served in itertools.pairwise(world.served):
        assert served.read >= earlier.split.total * 0.95
    for record in result.requests:
        assert record.verdict is not None
        assert record.verdict.shortfall is None or not record.verdict.shortfall.lost_tokens


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_api_takes_what_is_told_and_keeps_what_was_sent(
    provider: str, knowledge: Knowledge
) -> None:
    """In a run behind tool results, and before the next message of a user."""

    def on_turn(number: int) -> None:
        if number == 2:
            knowledge.put("hours.md", "We open at ten.")

    world = hosted(4, on_turn, provider)
    agent = guide(world.model, knowledge, tools=[look])

    async def runs() -> Any:
        result = await agent.run("When?")
        knowledge.remove("rooms.md")
        return await agent.run("And now?", context=result.context)

    result = world.run(runs)
    assert len(world.served) == 8
    assert len(deltas(result.context)) == 2
    for before, after in itertools.pairwise(world.sent):
        assert after[: len(before)] == before
    assert any(b"'hours.md' changed" in piece for piece in world.sent[2])
    assert any(b"'rooms.md' was withdrawn" in piece for piece in world.sent[4])


def test_on_the_wire_a_new_front_changes_only_from_the_changed_document_on() -> None:
    """C19: rules, tools, role and the documents before it keep their bytes."""
    knowledge = Knowledge()
    knowledge.put_all({f"doc{n:02}.md": f"Text {n}. " * 150 for n in range(20)})
    world = hosted(2, lambda number: None)
    agent = guide(world.model, knowledge, tools=[look], instructions="You guide. " * 400)

    async def runs() -> list[RequestRecord]:
        results = [await agent.run("First?")]
        knowledge.put("doc18.md", "Another text. " * 400)
        results += [await agent.run(f"Question {n}?") for n in range(12)]
        return [record for result in results for record in result.requests]

    records = world.run(runs)
    fronts = [[piece for piece in wire if piece[0] in ("tools", "system")] for wire in world.wires]
    anew = next(n for n, front in enumerate(fronts) if front != fronts[0])
    pairs = zip(fronts[0], fronts[anew], strict=True)
    n_equal = len([None for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])
    assert "doc18.md" in fronts[0][n_equal][1]
    assert "Another text." in fronts[anew][n_equal][1]
    assert all(front == fronts[anew] for front in fronts[anew:])
    cold = [n for n, served in enumerate(world.served) if not served.read]
    assert cold in ([0], [0, anew])  # where no mark lay before the change
    causes = {
        record.verdict.shortfall.cause
        for record in records
        if record.verdict and record.verdict.shortfall
    }
    assert causes == {Cause.COMPACTED}


def test_on_the_wire_documents_that_do_not_fit_leave_tools_and_front_as_they_were() -> None:
    """They came after the first run, and were neither shown nor to be found."""
    knowledge = Knowledge()
    knowledge.put_all({f"doc{n}.md": f"Text {n}. " * 180 for n in range(6)})
    world = hosted(1, lambda number: None)
    agent = guide(world.model, knowledge, knowledge_tokens=3_000)

    async def runs() -> list[Any]:
        first = await agent.run("First?")
        knowledge.put_all({f"more{n}.md": f"More {n}. " * 180 for n in range(6)})
        fresh = await agent.run("Second?")
        return [first, fresh, await agent.run("Third?", context=fresh.context)]

    world.run(runs)
    fronts = [[piece for piece in wire if piece[0] in ("tools", "system")] for wire in world.wires]
    assert fronts[0] == fronts[1] == fronts[2]
    assert "search_knowledge" in fronts[0][0][1]
    role, told = world.wires[1][len(fronts[1])]
    assert role == "user"
    assert "search_knowledge finds them" in told
    assert "more0.md" not in told
    assert world.served[1].read >= world.served[0].split.total * 0.95
    assert world.wires[2][: len(world.wires[1])] == world.wires[1]
    assert str(world.wires[2]).count("search_knowledge finds them") == 1
