"""Messages keep every character, and cannot be changed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    message_from_json,
    message_to_json,
    printable,
)
from agentkit.errors import ContextError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
BLOCKS = st.one_of(
    st.builds(Text, TEXT),
    st.builds(Thinking, TEXT, st.none() | TEXT),
    st.builds(ToolCall, id=TEXT, name=TEXT, arguments=TEXT),
)
RESULTS = st.builds(ToolResult, call_id=TEXT, name=TEXT, content=TEXT, is_error=st.booleans())
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, st.lists(st.builds(Text, TEXT), max_size=3).map(tuple)),
    st.builds(AssistantMessage, st.lists(BLOCKS, max_size=4).map(tuple)),
    st.builds(ToolMessage, st.lists(RESULTS, max_size=3).map(tuple)),
)


@given(MESSAGES)
def test_a_message_survives_json_text_and_utf8(message: Message) -> None:
    text = json.dumps(message_to_json(message), ensure_ascii=False)

    assert message_from_json(text.encode()) == message
    assert message_from_json(message_to_json(message)) == message


@pytest.mark.parametrize(
    "arguments",
    ['{"b":1,  "a":2}', '{ "x" : 1.0 }', '{"e":"\\u00e9"}', '{"e":"é"}', "{broken", "", "[1,\n2]"],
)
def test_argument_text_is_replayed_exactly(arguments: str) -> None:
    """Regression elsewhere (C8): arguments parsed and printed again move the whole history."""
    message = AssistantMessage((ToolCall(id="1", name="f", arguments=arguments),))

    (block,) = message_from_json(json.dumps(message_to_json(message))).blocks  # type: ignore[union-attr]

    assert block == ToolCall(id="1", name="f", arguments=arguments)


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Text("a").text = "b"  # type: ignore[misc]


@pytest.mark.parametrize("text", ["\ud800", "ok \udcff"])
def test_lone_surrogates_are_refused_and_printable_spells_them_out(text: str) -> None:
    with pytest.raises(ContextError, match="lone surrogate"):
        Text(text)
    with pytest.raises(ContextError, match=r"ToolResult\.content"):
        ToolResult(call_id="1", name="f", content=text)
    assert Text(printable(text)).text.startswith(text[:-1] + "\\ud")


@pytest.mark.parametrize(
    "value",
    [
        '{"kind":"user","blocks":[{"kind":"tool_call","id":"1","name":"f","arguments":""}]}',
        '{"kind":"robot","blocks":[]}',
        '{"kind":"user","blocks":[{"kind":"audio","text":"x"}]}',
        '{"kind":"user","blocks":[{"kind":"text"}]}',
        '{"kind":"user"}',
        '{"kind":"user","blocks":[{"kind":"text","text":3}]}',
        "[]",
        "{",
    ],
)
def test_what_is_no_message_is_refused(value: str) -> None:
    with pytest.raises(ContextError):
        message_from_json(value)


def test_text_of_an_answer_leaves_out_thinking_and_calls() -> None:
    call = ToolCall(id="1", name="f", arguments="{}")
    message = AssistantMessage((Thinking("hm"), Text("a"), call, Text("b")))

    assert message.text == "ab"
    assert message.calls == (call,)


def test_an_image_by_its_bytes_is_told_how_to_be_made() -> None:
    raw: Any = b"png"
    with pytest.raises(ContextError, match=r"use Image.of_bytes\(data, media_type\)"):
        Image(media_type="image/png", data=raw)
    with pytest.raises(ContextError, match=r"use File.of_bytes\(data, media_type, name=...\)"):
        File(name="a.pdf", media_type="application/pdf", data=raw)
    with pytest.raises(ContextError, match="give what follows its comma"):
        Image(media_type="image/png", data="data:image/png;base64,aGk=")
