"""Agents whose documents change: in the front or searched, and told where they were shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, ConfigurationError, Context, ContextMismatch, Document
from agentkit.blocks import ToolMessage
from agentkit.context.turns import DELTA_HEADER
from agentkit.knowledge import Knowledge
from agentkit.result import RunResult
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.warn import PinnedToolsWarning
from tests.agentkit.guide import (
    change_in_a_tool,
    deltas,
    documents,
    guide,
    kinds,
    make_knowledge,
    says,
)

MORE = "There are more documents than you are shown; search_knowledge finds them."


@pytest.fixture
def knowledge() -> Knowledge:
    return make_knowledge()


# In the front, or searched.


def test_all_documents_lie_in_the_front_in_the_order_of_their_uris(knowledge: Knowledge) -> None:
    model = says()
    guide(model, knowledge).run_sync("When?")

    request = model.calls[0].request
    assert documents(request.context) == ["hours.md#0000", "prices.md#0000", "rooms.md#0000"]
    assert request.toolset.names == ("search_knowledge",)
    assert not deltas(request.context)


def test_too_many_documents_are_searched_instead(knowledge: Knowledge) -> None:
    model = says(Call("search_knowledge", {"query": "ticket"}), "Ten euro.")
    result = guide(model, knowledge, knowledge_tokens=300).run_sync("How much?")

    assert documents(result.context) == []
    assert model.calls[0].request.toolset.names == ("search_knowledge",)
    (results,) = [m for m in result.context.messages if isinstance(m, ToolMessage)]
    assert results.results[0].content.startswith("[prices.md#0000]\nA ticket is ten euro.")


def test_which_of_the_two_is_decided_once_for_an_agent(
    knowledge: Knowledge, caplog: pytest.LogCaptureFixture
) -> None:
    """The tools of a team lead its prompt, so none may come or go when documents do."""
    model = says()
    agent = guide(model, knowledge, knowledge_tokens=1_200)
    agent.run_sync("When?")
    knowledge.put("long.md", "This is long. " * 2_000)
    knowledge.remove("rooms.md")
    agent.run_sync("When?")
    agent.run_sync("When?")

    first, second, _ = (call.request for call in model.calls)
    assert second.toolset.bytes == first.toolset.bytes
    assert second.context.front == first.context.front
    assert "'rooms.md' was withdrawn" in deltas(second.context)[0]
    assert "long.md" not in second.wire.decode()
    assert "There are more documents than you are shown" in deltas(second.context)[0]
    (warning,) = [r.message for r in caplog.records if "knowledge_tokens=1200" in r.message]
    assert "has to search for the others with search_knowledge" in warning


async def test_documents_that_do_not_fit_any_more_are_found_and_that_is_said_once(
    knowledge: Knowledge,
) -> None:
    """New documents above `knowledge_tokens` were told to nobody, and could not be searched."""
    model = says()
    agent = guide(model, knowledge, knowledge_tokens=1_200)
    running = before = await agent.run("When?")
    knowledge.put("cats.md", "A cat pays nothing. " * 600)
    fresh = await agent.run("How much for a cat?")
    running = await agent.run("And now?", context=running.context)
    knowledge.put("hours.md", "We open at ten.")
    running = await agent.run("Still?", context=running.context)
    # After a restart there is an agent that shows no document, and only searches.
    later = guide(says(), knowledge, knowledge_tokens=1_200)
    again = await later.run("?", context=reloaded(fresh))
    late = await later.run("?", context=reloaded(before))

    def told_of_more(result: RunResult[Any]) -> int:
        return len([told for told in deltas(result.context) if MORE in told])

    assert [told_of_more(each) for each in (fresh, running, again, late)] == [1] * 4
    assert "We open at ten." in deltas(running.context)[-1]
    for call in model.calls:
        assert call.request.toolset.names == ("search_knowledge",)
        assert call.request.callable_tools is None  # all of them
        assert documents(call.request.context)[0] == "hours.md#0000"
        assert "A cat pays nothing." not in call.request.wire.decode()


async def test_what_did_not_fit_is_searched_with_success(knowledge: Knowledge) -> None:
    search = Call("search_knowledge", {"query": "cat"})
    model = says("Nine.", search, "Nothing.")
    agent = guide(model, knowledge, knowledge_tokens=1_200)
    await agent.run("When?")
    knowledge.put("cats.md", "A cat pays nothing. " * 600)
    result = await agent.run("How much for a cat?")

    assert kinds(result.context)[:2] == ["delta", "user"]
    (found,) = [m for m in result.context.messages if isinstance(m, ToolMessage)]
    assert "A cat pays nothing." in found.results[0].content


async def test_what_fits_again_is_told_in_full(knowledge: Knowledge) -> None:
    """Also what came while it did not fit, of which the conversation was not told."""
    agent = guide(says(), knowledge, knowledge_tokens=1_200)
    result = await agent.run("When?")
    knowledge.put_all({"long.md": "This is long. " * 2_000, "cats.md": "Cats are free."})
    result = await agent.run("Now?", context=result.context)
    assert "cats.md" not in deltas(result.context)[0]
    knowledge.remove("long.md")
    result = await agent.run("And now?", context=result.context)

    assert "Document 'cats.md' is new" in deltas(result.context)[1]
    assert "long.md" not in deltas(result.context)[1]


def test_the_tool_is_there_from_the_start_also_without_any_document() -> None:
    knowledge = Knowledge()
    model = says()
    agent = guide(model, knowledge, knowledge_tokens=100)
    agent.run_sync("?")
    knowledge.put("long.md", "This is long. " * 200)
    agent.run_sync("?")

    first, second = (call.request for call in model.calls)
    assert first.toolset.bytes == second.toolset.bytes
    assert first.toolset.names == ("search_knowledge",)
    assert MORE in deltas(second.context)[0]


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
        async for event in events:
            if event.kind == "turn_end":
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
    with pytest.warns(PinnedToolsWarning, match="search_knowledge"):
        same = await guide(says(), knowledge).run("Now?", context=result.context)
    knowledge.remove("hours.md")
    with pytest.warns(PinnedToolsWarning, match="search_knowledge"):
        told = await guide(says(), knowledge).run("Now?", context=same.context)

    assert deltas(same.context) == []
    assert "'hours.md' was withdrawn" in deltas(told.context)[0]
