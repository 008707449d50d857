"""A conversation is brought to the latest version, as cheaply as can be and without a gap."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from agentkit.blocks import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.caching.policy import anthropic_policy
from agentkit.context import Context, SystemPart, SystemText
from agentkit.context.compact import compacted
from agentkit.context.prices import Prices
from agentkit.context.turns import delta, is_delta
from agentkit.errors import ContextError
from agentkit.knowledge import Knowledge, catch_up
from agentkit.knowledge.catch_up import superseded
from agentkit.testing import assert_extends

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
SONNET = Prices(row=anthropic_policy("claude-sonnet-5-5", date(2026, 11, 27)).prices, at=NOON)
RULES = SystemText(SystemPart.RULES, "Be brief.")


def front(knowledge: Knowledge) -> Context:
    return Context(RULES, *knowledge.snapshot().documents)


def begun(knowledge: Knowledge, n_turns: int = 20) -> Context:
    context = front(knowledge)
    for number in range(n_turns):
        answer = AssistantMessage((Text(f"Answer {number}. " * 60),))
        context = context.append(UserMessage.of(f"Question {number}?"), answer)
    return context


def searched(context: Context, uri: str) -> Context:
    call = ToolCall(id="s", name="search_knowledge", arguments="{}")
    found = ToolResult(call_id="s", name="search_knowledge", content=f"[{uri}#0000]\nold text")
    return context.append(AssistantMessage((call,)), ToolMessage((found,)))


def test_nothing_is_said_of_what_was_never_shown() -> None:
    knowledge = Knowledge()
    knowledge.put("a", "1")
    context, since = begun(knowledge), knowledge.version
    knowledge.put("other", "new")
    caught = catch_up(context, knowledge, since, SONNET)

    assert caught.context is context
    assert caught.version == knowledge.version
    assert caught.decision is None


def test_a_small_change_of_a_long_conversation_is_appended() -> None:
    knowledge = Knowledge()
    knowledge.put_all({"a": "first", "b": "second"})
    context, since = begun(knowledge), knowledge.version
    knowledge.put("a", "changed")
    caught = catch_up(context, knowledge, since, SONNET, front=front(knowledge), turns_left=5)

    assert caught.decision is not None
    assert caught.decision.action == "append"
    assert_extends(context.dump(), caught.context.dump())
    assert "'a' changed" in caught.context.messages[-1].text  # type: ignore[union-attr]
    again = catch_up(caught.context, knowledge, caught.version, SONNET)
    assert again.context is caught.context


def test_a_short_conversation_with_large_documents_begins_anew() -> None:
    knowledge = Knowledge()
    knowledge.put_all({f"d{number}": f"text {number} " * 800 for number in range(4)})
    context, since = begun(knowledge, 1), knowledge.version
    for number in range(4):
        knowledge.put(f"d{number}", f"edited {number} " * 800)
    told = catch_up(context, knowledge, since, SONNET, front=None, turns_left=60)
    assert told.decision is not None
    assert told.decision.action == "append"
    assert "no newer front" in told.decision.reason

    newer = front(knowledge)
    caught = catch_up(context, knowledge, since, SONNET, front=newer, turns_left=60)
    assert caught.decision is not None
    assert caught.decision.action == "rebase"
    assert caught.decision.switch_cost is not None
    assert caught.context.front == newer
    *kept, note = caught.context.messages
    assert tuple(kept) == context.messages
    assert "what was said before from older texts may not hold" in note.text  # type: ignore[union-attr]
    assert "edited" not in note.text  # type: ignore[union-attr]


def test_what_searches_found_is_still_taken_back_in_a_new_epoch() -> None:
    """A withdrawn document is said, also where its passages lie in the history."""
    knowledge = Knowledge()
    knowledge.put_all({"front": "text " * 3_000, "found": "old text"})
    since = knowledge.version
    context = Context(RULES, *knowledge.snapshot().select("text", k=1), UserMessage.of("go"))
    context = searched(context, "found")
    knowledge.put("front", "edited " * 10)
    knowledge.remove("found")
    newer = Context(RULES, *knowledge.select("edited"))
    caught = catch_up(context, knowledge, since, SONNET, front=newer, turns_left=100)

    assert caught.decision is not None
    assert caught.decision.action == "rebase"
    said = caught.context.messages[-1]
    assert isinstance(said, UserMessage)
    assert "Document 'found' was withdrawn" in said.text
    assert "'front'" not in said.text


def test_earlier_changes_leave_with_the_front_that_they_superseded() -> None:
    knowledge = Knowledge()
    knowledge.put("a", "text " * 2_000)
    context, version = begun(knowledge, 1), knowledge.version
    for number in range(4):
        knowledge.put("a", f"edit {number} " * 2_000)
        caught = catch_up(context, knowledge, version, SONNET, turns_left=3)
        context, version = caught.context, caught.version
    assert sum(map(is_delta, context.messages)) == 4
    knowledge.put("a", "the end")
    last = catch_up(context, knowledge, version, SONNET, front=front(knowledge), turns_left=50)

    assert last.decision is not None
    assert last.decision.action == "rebase"
    assert [is_delta(message) for message in last.context.messages] == [False, False, True]
    assert "edit " not in last.context.messages[-1].text  # type: ignore[union-attr]


def test_a_withdrawal_is_still_said_when_the_message_that_said_it_leaves() -> None:
    """What the model has answered from the document stays in the history."""
    knowledge = Knowledge()
    knowledge.put_all({"a": "text " * 2_000, "b": "wrong"})
    context, version = begun(knowledge, 1), knowledge.version
    knowledge.remove("b")
    told = catch_up(context, knowledge, version, SONNET)
    knowledge.put("a", "edited " * 2_000)
    anew = catch_up(
        told.context, knowledge, told.version, SONNET, front=front(knowledge), turns_left=90
    )

    assert anew.decision is not None
    assert anew.decision.action == "rebase"
    (note,) = filter(is_delta, anew.context.messages)
    assert "'b' was withdrawn" in note.text  # type: ignore[union-attr]
    assert "'a'" not in note.text  # type: ignore[union-attr]


def test_two_turns_of_the_model_never_follow_upon_each_other() -> None:
    answer, change, other = AssistantMessage((Text("Yes."),)), delta("a"), delta("b")
    user = UserMessage.of("?")

    assert superseded([user, answer, change, user, answer]) == (change,)
    assert superseded([user, answer, change, answer]) == ()
    assert superseded([user, answer, change, other, answer, change]) == (change, change)


def test_between_a_call_and_its_result_nothing_is_said() -> None:
    knowledge = Knowledge()
    knowledge.put("a", "1")
    since = knowledge.version
    call = AssistantMessage((ToolCall(id="o", name="f", arguments="{}"),))
    context = begun(knowledge, 1).append(UserMessage.of("go"), call)
    knowledge.put("a", "2")

    with pytest.raises(ContextError, match="no result yet"):
        catch_up(context, knowledge, since, SONNET)


def test_a_summary_does_not_swallow_what_supersedes_the_front() -> None:
    knowledge = Knowledge()
    knowledge.put("a", "wrong")
    context, since = begun(knowledge, 2), knowledge.version
    knowledge.remove("a")
    context = catch_up(context, knowledge, since, SONNET).context
    context = context.append(AssistantMessage((Text("I see."),)), UserMessage.of("Go on."))

    epoch = compacted(context, "We spoke.", 0)
    assert epoch.front == context.front
    assert [is_delta(message) for message in epoch.messages] == [False, True, False]
    anew = compacted(context, "We spoke.", 0, front=front(knowledge))
    assert anew.front == Context(RULES)
    assert not any(map(is_delta, anew.messages))
    with pytest.raises(ContextError, match="has 7 messages"):
        compacted(context, "We spoke.", 0, front=context)
