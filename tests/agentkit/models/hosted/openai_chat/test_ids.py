"""Ids and names of calls that other models made up."""

from __future__ import annotations

from agentkit.blocks import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
)
from agentkit.context import Context
from agentkit.models.hosted.openai_chat import (
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    Profile,
)
from tests.agentkit.models.hosted.openai_chat.talk import QUESTION, sent, turns
from tests.agentkit.models.hosted.weather import request


def test_mistral_gets_ids_that_it_takes_the_same_ones_every_time() -> None:
    first = sent(turns()[1], profile=MISTRAL)["messages"]
    again = sent(turns()[2], profile=MISTRAL)["messages"]

    ids = [call["id"] for call in first[5]["tool_calls"]]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert len(set(ids)) == 2
    assert [m["tool_call_id"] for m in first if m["role"] == "tool"] == ids
    assert again[: len(first)] == first
    kept = AssistantMessage((ToolCall(id="abcDEF123", name="weather", arguments="{}"),))
    result = ToolMessage((ToolResult(call_id="abcDEF123", name="weather", content="1"),))
    own = sent(request(Context(QUESTION, kept, result)), profile=MISTRAL)["messages"]
    assert own[1]["tool_calls"][0]["id"] == own[2]["tool_call_id"] == "abcDEF123"


def called(*ids: str, name: str = "weather") -> AssistantMessage:
    return AssistantMessage(tuple(ToolCall(id=each, name=name, arguments="{}") for each in ids))


def answered(*ids: str) -> ToolMessage:
    return ToolMessage(tuple(ToolResult(call_id=i, name="weather", content="1") for i in ids))


def ids_of(profile: Profile, *turns: str) -> list[tuple[str, str]]:
    """The id of each turn's call, and that of its result."""
    context = Context(QUESTION)
    for each in turns:
        context = context.append(called(each), answered(each))
    messages = sent(request(context), profile=profile)["messages"][1:]
    pairs = zip(messages[::2], messages[1::2], strict=True)
    return [(asks["tool_calls"][0]["id"], says["tool_call_id"]) for asks, says in pairs]


def test_ids_that_a_server_refuses_are_replaced_and_results_follow() -> None:
    long = "x" * 41
    (kept, replaced) = ids_of(OPENAI, "x" * 40, long)

    assert kept == ("x" * 40, "x" * 40)
    assert replaced[0] == replaced[1] != long
    assert len(replaced[0]) <= 40


def test_ids_that_come_again_are_told_apart_where_they_must_be() -> None:
    first, second, third = ids_of(OPENROUTER, "call_0", "call_0", "functions.f:0")

    assert first == ("call_0", "call_0")
    assert second[0] == second[1] != "call_0"
    assert third[0] == third[1] != "functions.f:0"
    assert ids_of(MOONSHOT, "functions.f:0", "functions.f:0") == [("functions.f:0",) * 2] * 2
    assert ids_of(OPENROUTER, "call_0")[0] == first  # whatever comes later


def test_names_of_tools_that_a_model_made_up_are_made_legal() -> None:
    made = request(Context(QUESTION, called("c", name="no such/tool"), answered("c")))

    assert sent(made)["messages"][1]["tool_calls"][0]["function"]["name"] == "no_such_tool"
