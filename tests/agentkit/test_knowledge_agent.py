"""Agents whose documents change: new runs begin with them, conversations are told of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, CompactionRule, ConfigurationError, Context, ContextMismatch, Document
from agentkit.blocks import Message, ToolMessage, UserMessage
from agentkit.caching.report import RequestRecord
from agentkit.caching.verdict import Cause
from agentkit.context.turns import DELTA_HEADER, is_delta
from agentkit.fake import Ask
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.knowledge import Knowledge
from agentkit.models import ModelRequest
from agentkit.result import RunResult
from agentkit.testing import Call, Say, ScriptedModel, assert_prefix_stable
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld

RULES = "Be exact and never guess. " * 60
SUMMARY = "We spoke of opening hours."


@pytest.fixture
def knowledge() -> Knowledge:
    made = Knowledge()
    made.put_all(
        {
            "hours.md": "We open at nine. " * 60,
            "prices.md": "A ticket is ten euro. " * 60,
            "rooms.md": "There are four rooms. " * 60,
        }
    )
    return made


def says(*steps: Any) -> ScriptedModel:
    return ScriptedModel(list(steps) if steps else lambda request: "Yes.")


def guide(model: Any, knowledge: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(model=model, name="guide", rules=RULES, knowledge=knowledge, **more)


def deltas(context: Context) -> list[str]:
    return [m.text for m in context.messages if isinstance(m, UserMessage) and is_delta(m)]


def documents(context: Context) -> list[str]:
    contents = (segment.content for segment in context.front)
    return [each.uri for each in contents if isinstance(each, Document)]


def kinds(context: Context) -> list[str]:
    return ["delta" if is_delta(m) else m.kind for m in context.messages]


def change_in_a_tool(change: Callable[[], object]) -> Callable[[str], str]:
    def act(what: str) -> str:
        """Act."""
        change()
        return f"{what} done"

    return act


# In the front, or searched.


def test_all_documents_lie_in_the_front_in_the_order_of_their_uris(knowledge: Knowledge) -> None:
    model = says()
    guide(model, knowledge).run_sync("When?")

    request = model.calls[0].request
    assert documents(request.context) == ["hours.md#0000", "prices.md#0000", "rooms.md#0000"]
    assert not len(request.toolset)
    assert not deltas(request.context)


def test_too_many_documents_are_searched_instead(knowledge: Knowledge) -> None:
    model = says(Call("search_knowledge", {"query": "ticket"}), "Ten euro.")
    result = guide(model, knowledge, knowledge_tokens=300).run_sync("How much?")

    assert documents(result.context) == []
    assert model.calls[0].request.toolset.names == ("search_knowledge",)
    (results,) = [m for m in result.context.messages if isinstance(m, ToolMessage)]
    assert results.results[0].content.startswith("[prices.md#0000]\nA ticket is ten euro.")


def test_which_of_the_two_is_decided_once_for_an_agent(knowledge: Knowledge) -> None:
    """The tools of a team lead its prompt, so none may come or go when documents do."""
    model = says()
    agent = guide(model, knowledge, knowledge_tokens=1_200)
    agent.run_sync("When?")
    knowledge.put("long.md", "This is long. " * 2_000)
    agent.run_sync("When?")

    first, second = (call.request for call in model.calls)
    assert second.toolset.bytes == first.toolset.bytes
    assert second.context.front == first.context.front
    assert deltas(second.context) == []


def test_agents_of_a_team_search_each_their_own(knowledge: Knowledge) -> None:
    other = Knowledge()
    other.put("cats.md", "A ticket for cats is free. " * 90)
    child = Agent(name="cats", instructions="Of cats.", knowledge=other, knowledge_tokens=10)
    search = Call("search_knowledge", {"query": "ticket"})
    model = ScriptedModel(
        {
            "guide": [[search, Call("delegate_to_cats", {"task": "?"})], "Done."],
            "cats": [search, "Free."],
        }
    )
    result = guide(model, knowledge, knowledge_tokens=10, subagents=[child]).run_sync("?")

    below = result.children[0].result.context.messages  # type: ignore[union-attr]
    for messages, uri in ((result.context.messages, "prices.md"), (below, "cats.md")):
        found = next(m for m in messages if isinstance(m, ToolMessage)).results[0].content
        assert found.startswith(f"[{uri}#0000]")


@pytest.mark.parametrize("wrong", [{"knowledge": "text"}, {"knowledge_tokens": -1}])
def test_wrong_values_are_found_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Agent(**wrong)


# C17, C19: what a snapshot's bytes depend on.


def test_a_front_of_documents_has_the_same_bytes_whenever_it_is_built(tmp_path: Path) -> None:
    """C17: "age" labels computed from the clock missed each minute without any edit."""
    texts = {f"doc{n}.md": f"Text {n}. " * 50 for n in range(9)}
    fronts = []
    for number, order in enumerate((sorted(texts), sorted(texts, reverse=True))):
        with Knowledge(tmp_path / f"{number}.db") as made:
            for uri in order:
                made.put(uri, texts[uri])
            model = says()
            guide(model, made).run_sync("?")
            fronts.append(model.calls[0].wire)

    assert fronts[0] == fronts[1]


# A conversation is told, once, and where every model takes it.


def test_a_change_during_a_run_is_told_behind_the_results_and_nothing_before_it_moves(
    knowledge: Knowledge,
) -> None:
    """C19: a memory edit invalidated all that stood behind it."""
    act = change_in_a_tool(lambda: knowledge.put("hours.md", "We open at ten."))
    model = says(Call("act", {"what": "a"}), Call("act", {"what": "b"}), "At ten.")
    result = guide(model, knowledge, tools=[act]).run_sync("When?")

    assert_prefix_stable(model.calls)
    assert kinds(result.context) == [
        "user",
        "assistant",
        "tool",
        "delta",
        "assistant",
        "tool",
        "assistant",
    ]
    (told,) = deltas(result.context)
    assert "Document 'hours.md' changed. This is its new text:\nWe open at ten." in told
    assert "prices.md" not in told
    assert len(result.messages) == len(result.context.messages)


def test_a_withdrawn_document_is_said(knowledge: Knowledge) -> None:
    act = change_in_a_tool(lambda: knowledge.remove("rooms.md"))
    model = says(Call("act", {"what": "a"}), "Done.")
    result = guide(model, knowledge, tools=[act]).run_sync("How many rooms?")

    (told,) = deltas(result.context)
    assert "Document 'rooms.md' was withdrawn: do not use what was said from it." in told


def test_there_and_back_between_two_requests_is_no_change(knowledge: Knowledge) -> None:
    def there_and_back() -> None:
        before = knowledge.get("hours.md")
        knowledge.put("hours.md", "Closed.")
        knowledge.put("hours.md", str(before))

    model = says(Call("act", {"what": "a"}), "Done.")
    agent = guide(model, knowledge, tools=[change_in_a_tool(there_and_back)])

    assert deltas(agent.run_sync("?").context) == []


async def test_a_conversation_that_goes_on_is_told_before_the_users_new_message(
    knowledge: Knowledge,
) -> None:
    model = says()
    agent = guide(model, knowledge)
    result = await agent.run("When?")
    knowledge.put("new.md", "There is a café now.")
    knowledge.remove("rooms.md")
    result = await agent.run("And now?", context=result.context)

    assert kinds(result.context) == ["user", "assistant", "delta", "user", "assistant"]
    (told,) = deltas(result.context)
    assert "Document 'new.md' is new. This is its text:\nThere is a café now." in told
    assert "'rooms.md' was withdrawn" in told
    assert result.messages[0].text.startswith(DELTA_HEADER)  # type: ignore[union-attr]
    result = await agent.run("Still?", context=result.context)
    assert len(deltas(result.context)) == 1
    first, second, third = (call.wire for call in model.calls)
    assert third.startswith(second)
    assert second.startswith(first)


async def test_one_that_was_put_away_is_told_by_another_agent_what_it_does_not_know(
    knowledge: Knowledge,
) -> None:
    """Nobody remembers a version for it: its own front and messages say what it was told."""
    result = await guide(says(), knowledge).run("When?")
    knowledge.put("hours.md", "We open at ten.")
    again = await guide(says(), knowledge).run("Now?", context=reloaded(result))
    assert len(deltas(again.context)) == 1
    same = await guide(says(), knowledge).run("Now?", context=reloaded(again))
    assert len(deltas(same.context)) == 1
    knowledge.put("hours.md", "We open at nine. " * 60)  # as in its front, but it was told else
    back = await guide(says(), knowledge).run("Now?", context=reloaded(same))

    assert len(deltas(back.context)) == 2
    assert "We open at nine." in deltas(back.context)[1]
    knowledge.remove("hours.md")
    gone = await guide(says(), knowledge).run("Now?", context=reloaded(back))
    assert "'hours.md' was withdrawn" in deltas(gone.context)[2]
    still = await guide(says(), knowledge).run("Now?", context=reloaded(gone))
    assert len(deltas(still.context)) == 3


def reloaded(result: RunResult[Any]) -> Context:
    return Context.load(result.context.dump())


async def test_one_that_searched_is_told_only_of_what_it_has_found(knowledge: Knowledge) -> None:
    def searching(*steps: Any) -> Agent[Any, Any]:
        return guide(says(*steps), knowledge, knowledge_tokens=10)

    result = await searching(Call("search_knowledge", {"query": "ticket"}), "Ten.").run("?")
    knowledge.put("hours.md", "We open at ten.")
    unmoved = await searching().run("Now?", context=reloaded(result))
    assert deltas(unmoved.context) == []

    knowledge.put("prices.md", "A ticket is twelve euro.")
    told = await searching().run("Now?", context=reloaded(unmoved))
    assert "twelve euro" in deltas(told.context)[0]
    assert "hours.md" not in deltas(told.context)[0]
    after = await searching().run("Now?", context=reloaded(told))
    assert len(deltas(after.context)) == 1


def test_during_a_run_it_is_told_of_what_it_has_found_and_search_finds_the_latest(
    knowledge: Knowledge,
) -> None:
    def change() -> None:
        knowledge.put("prices.md", "A ticket is twelve euro.")
        knowledge.put("hours.md", "We open at ten.")

    model = says(
        Call("search_knowledge", {"query": "ticket"}),
        Call("act", {"what": "a"}),
        Call("search_knowledge", {"query": "open"}),
        "Done.",
    )
    agent = guide(model, knowledge, knowledge_tokens=10, tools=[change_in_a_tool(change)])
    result = agent.run_sync("?")

    (told,) = deltas(result.context)
    assert "twelve euro" in told
    assert "hours.md" not in told
    last = [m for m in result.context.messages if isinstance(m, ToolMessage)][-1]
    assert "We open at ten." in last.results[0].content
    assert_prefix_stable(model.calls)


async def test_a_paused_run_is_told_when_it_goes_on(knowledge: Knowledge) -> None:
    model = says(Call("act", {"what": "a"}), "Done.")
    agent = guide(model, knowledge, tools=[change_in_a_tool(lambda: None)])
    stream = agent.stream("When?")
    async with stream as events:
        async for _ in events:
            stream.pause()
    assert stream.context is not None
    knowledge.put("hours.md", "We open at ten.")
    result = await agent.run(None, context=stream.context)

    assert kinds(result.context) == ["user", "assistant", "tool", "delta", "assistant"]


async def test_other_differences_than_documents_are_still_refused(knowledge: Knowledge) -> None:
    result = await guide(says(), knowledge).run("When?")
    knowledge.put("hours.md", "We open at ten.")

    with pytest.raises(ContextMismatch, match="role"):
        await guide(says(), knowledge, instructions="Else.").run("?", context=result.context)
    fixed = [Document(uri="hours.md", text="We open at ten.")]
    with pytest.raises(ContextMismatch, match="knowledge"):
        await guide(says(), fixed).run("?", context=result.context)


async def test_fixed_documents_may_become_ones_that_change(knowledge: Knowledge) -> None:
    texts = {uri: knowledge.get(uri) for uri in knowledge.etags()}
    fixed = [Document(uri=uri, text=str(text)) for uri, text in texts.items()]
    result = await guide(says(), fixed).run("When?")
    same = await guide(says(), knowledge).run("Now?", context=result.context)
    knowledge.remove("hours.md")
    told = await guide(says(), knowledge).run("Now?", context=same.context)

    assert deltas(same.context) == []
    assert "'hours.md' was withdrawn" in deltas(told.context)[0]


# New runs.


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


# On a provider's wire.


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
