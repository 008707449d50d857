"""Calls on the wire: what a model wrote is what it is sent, whoever it was."""

from __future__ import annotations

import json

import pytest

from agentkit.blocks import AssistantMessage, ToolCall, ToolMessage, ToolResult
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.anthropic.calls import wire_input
from tests.agentkit.models.hosted.anthropic.support import (
    MODEL,
    ask,
    call_turn,
    on_wire,
    question,
    sent,
)


def test_arguments_go_back_as_they_were_written() -> None:
    """C8: odd spacing, key order and escapes of the model's text are sent as they came."""
    text = '{ "z": 1.0,\t"a" : "\\u00fc\\/ü",\n"n": 1e5, "big": 12345678901234567890}'
    context = question().append(*call_turn(ToolCall(id="c1", name="search", arguments=text)))
    data = sent(AnthropicAdapter(MODEL), ask(context))
    assert ('"input":' + text + "}").encode() in data
    assert json.loads(data)["messages"][1]["content"][0]["input"]["z"] == 1.0


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ',
        "[1]",
        '"text"',
        "null",
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        '{"a":1}}',
        "{'a': 1}",
        "[" * 5000 + "]" * 5000,
        '{"a":' * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_arguments_that_are_no_object_are_wrapped_and_keep_their_text(text: str) -> None:
    data = wire_input(text)
    assert json.loads(data) == {"INVALID_JSON": text}
    assert data == wire_input(text)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert wire_input(text) == b"{}"


def _turn(call_id: str, name: str = "search") -> tuple[AssistantMessage, ToolMessage]:
    call = ToolCall(id=call_id, name=name, arguments="{}")
    return (
        AssistantMessage((call,)),
        ToolMessage((ToolResult(call_id=call_id, name=name, content="ok"),)),
    )


def test_ids_are_legal_unique_and_answered_whoever_gave_them() -> None:
    context = question()
    for call_id in ("call_0", "call_0", "call.1/x", "", "call_0", "ü"):
        context = context.append(*_turn(call_id))
    content = [
        json.loads(text) for _, text in on_wire(sent(AnthropicAdapter(MODEL), ask(context)))[6:]
    ]
    calls = [each["id"] for each in content if each["type"] == "tool_use"]
    results = [each["tool_use_id"] for each in content if each["type"] == "tool_result"]
    assert calls == results
    assert len(set(calls)) == 6
    assert calls[0] == "call_0"
    assert all(call_id.replace("_", "").isalnum() and call_id.isascii() for call_id in calls)


def test_new_ids_do_not_depend_on_what_comes_later() -> None:
    adapter = AnthropicAdapter(MODEL)
    context = question()
    before: list[tuple[str, str]] = []
    for _ in range(4):
        context = context.append(*_turn("call_0"))
        now = on_wire(sent(adapter, ask(context)))
        assert now[: len(before)] == before
        before = now


def test_names_that_other_vendors_allow_are_made_legal() -> None:
    context = question().append(*_turn("c1", "files.read lines"))
    assert b'"name":"files_read_lines"' in sent(AnthropicAdapter(MODEL), ask(context))
