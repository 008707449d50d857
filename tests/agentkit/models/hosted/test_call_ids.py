"""Ids of calls on the wire: what was sent once is sent again, also by later releases."""

from __future__ import annotations

import pytest

from agentkit.blocks import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.context import Context
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.call_ids import CallIdRule, CallLog
from agentkit.models.hosted.openai_chat import MISTRAL, OPENAI, OPENROUTER, ChatAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter
from tests.agentkit.models.hosted.weather import request

ODD = "é" * 129

SHORT = ("27b24dc0706aef7cc191ae7e", "087ff67d4a729222bb3bbd22")
"""BLAKE2b of 12 bytes, of `0:` and `1:` before the id."""
LONG = ("b64965116999308d14450e5c", "05c2acffe0ee379829d932b3")
"""The beginnings of those of 32 bytes."""


def turn(call_id: str) -> tuple[AssistantMessage, ToolMessage]:
    call = ToolCall(id=call_id, name="weather", arguments="{}")
    return AssistantMessage((call,)), ToolMessage(
        (ToolResult(call_id=call_id, name="weather", content="7"),)
    )


@pytest.mark.parametrize(
    ("adapter", "first", "second"),
    [
        (AnthropicAdapter("claude-sonnet-5-5"), f"toolu_{SHORT[0]}", f"toolu_{SHORT[1]}"),
        (ResponsesAdapter("gpt-6-sol"), f"call_{SHORT[0]}", f"call_{SHORT[1]}"),
        (ChatAdapter("m", profile=OPENAI), f"call_{LONG[0]}", f"call_{LONG[0]}"),
        (ChatAdapter("m", profile=OPENROUTER), f"call_{LONG[0]}", f"call_{LONG[1]}"),
        (ChatAdapter("m", profile=MISTRAL), LONG[0][:9], LONG[0][:9]),
    ],
    ids=["anthropic", "responses", "chat", "openrouter", "mistral"],
)
def test_made_up_ids_are_pinned(adapter: Adapter, first: str, second: str) -> None:
    layout = adapter.layout(request(Context(UserMessage.of("a"), *turn(ODD), *turn(ODD))))

    said = [block.data.decode() for block in layout.blocks if block.segment]
    for text, wanted in zip(said, (first, first, second, second), strict=True):
        assert f'"{wanted}"' in text


def test_a_copy_goes_on_without_changing_the_log() -> None:
    log = CallLog(CallIdRule(pattern="c", unique=True))
    message = turn("c")[0]
    assert log.turn(message) == ()

    copied = log.copy()
    (changed,) = copied.turn(message)

    assert log.turn(message) == (changed,)
    assert copied.turn(message) != (changed,)


def test_a_turn_before_decides_and_none_behind() -> None:
    ids = ["c", "c", "d", "c"]
    rule = CallIdRule(pattern="[a-z]", unique=True)
    log = CallLog(rule)
    whole = [log.turn(turn(each)[0]) for each in ids]

    for end in range(len(ids)):
        shorter = CallLog(rule)
        assert [shorter.turn(turn(each)[0]) for each in ids[:end]] == whole[:end]
    assert [bool(each) for each in whole] == [False, True, False, True]
