"""Calls that other vendors' models made are replayed in a form that the API takes."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.blocks import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.context import Context
from tests.agentkit.models.hosted.openai_responses.talk import adapter, sent
from tests.agentkit.models.hosted.weather import request


def exchange(call_id: str, name: str = "weather", content: str = "7") -> list[Any]:
    call = ToolCall(id=call_id, name=name, arguments="{}")
    result = ToolResult(call_id=call_id, name=name, content=content)
    return [AssistantMessage((call,)), ToolMessage((result,))]


def ids(context: Context) -> list[str]:
    return [item["call_id"] for item in sent(request(context))["input"] if "call_id" in item]


START = Context(UserMessage.of("a"))


def test_an_id_that_a_model_uses_in_every_turn_is_told_apart() -> None:
    context = START.append(*exchange("call_0"), *exchange("call_0"), *exchange("call_0"))

    found = ids(context)

    assert found[0] == found[1] == "call_0"
    assert found[2] == found[3]
    assert found[4] == found[5]
    assert len(set(found)) == 3


def test_what_an_id_became_stays_when_the_conversation_goes_on() -> None:
    api = adapter()
    short = START.append(*exchange("call_0"), *exchange("call_0"))
    long = short.append(*exchange("call_0"), *exchange("x" * 65))

    before, after = api.layout(request(short)).stable, api.layout(request(long)).stable

    assert after[: len(before)] == before


def test_equal_turns_at_different_places_are_encoded_for_their_own_place() -> None:
    api = adapter()
    same = exchange("call_0")
    twice = api.layout(request(START.append(*same, *same)))

    assert len(twice.stable) == len(set(twice.stable))
    assert api.layout(request(START.append(*same))).stable == twice.stable[:5]


@pytest.mark.parametrize("call_id", ["x" * 65, "", "é" * 200])
def test_an_id_that_is_too_long_or_empty_is_replaced(call_id: str) -> None:
    first, second = ids(START.append(*exchange(call_id)))

    assert first == second
    assert 0 < len(first) <= 64


@pytest.mark.parametrize(
    ("name", "on_the_wire"),
    [("weather", "weather"), ("files.read", "files_read"), ("", "_"), ("n" * 99, "n" * 64)],
)
def test_a_name_that_no_tool_can_have_is_made_legal(name: str, on_the_wire: str) -> None:
    items = sent(request(START.append(*exchange("c", name))))["input"]

    assert items[1]["name"] == on_the_wire
