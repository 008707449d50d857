"""Chat events become the events of a message stream, and the whole message is a fold over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.api.anthropic.encode import MessageEncoder, folded
from agentkit_runtime.api.anthropic.usage import usage_of
from agentkit_runtime.api.anthropic.wire import StreamEvent
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
)
from agentkit_runtime.types import Priority
from tests.runtime.api.anthropic.strictly import a_message, an_event
from tests.runtime.api.anthropic.test_usage import stats

USAGE = usage_of(stats(9, 3), [], Priority.NORMAL)


def finished(reason: Any = "stop", **more: Any) -> ChatFinished:
    return ChatFinished(reason=reason, stats=stats(9, 3), **more)


def stream(
    *events: ChatEvent, last: ChatFinished | None = None, shows_thinking: bool = True
) -> list[StreamEvent]:
    encoder = MessageEncoder(
        id="msg_1", model="m", context_tokens=99, shows_thinking=shows_thinking
    )
    last = last or finished()
    told = [encoder.start(USAGE)]
    for event in (*events, last):
        told += encoder.encode(event)
    told += encoder.end(last, USAGE)
    for document in told:
        an_event(document)
    return told


def message(told: Sequence[StreamEvent]) -> Any:
    return a_message(folded(told, USAGE))


def kinds(told: Sequence[StreamEvent]) -> list[str]:
    return [event["type"] for event in told]


def test_thinking_is_a_block_of_its_own_with_a_signature() -> None:
    told = stream(ReasoningDelta("Hm"), ReasoningDelta("."), ContentDelta("So."))

    assert [event["delta"]["type"] for event in told if event["type"] == "content_block_delta"] == [
        "thinking_delta",
        "thinking_delta",
        "signature_delta",
        "text_delta",
    ]
    thought, text = message(told).content
    assert (thought.thinking, thought.signature, text.text) == ("Hm.", "unsigned", "So.")


def test_thinking_that_is_omitted_leaves_its_signature() -> None:
    told = stream(ReasoningDelta("Hm."), ContentDelta("So."), shows_thinking=False)

    thought, text = message(told).content
    assert (thought.thinking, thought.signature, text.text) == ("", "unsigned", "So.")


def test_thinking_tokens_are_counted() -> None:
    told = stream(ContentDelta("a"), last=finished(reasoning_tokens=3))

    assert message(told).usage.output_tokens_details.thinking_tokens == 3


def test_an_answer_of_nothing_has_no_blocks() -> None:
    told = stream(ContentDelta(""))

    assert kinds(told) == ["message_start", "message_delta", "message_stop"]
    assert message(told).content == []


def test_calls_in_a_row_are_blocks_in_a_row() -> None:
    told = stream(
        ToolCallStart(index=0, id="a", name="f"),
        ToolCallArguments(index=0, text='{"x"'),
        ToolCallArguments(index=0, text=": 1}"),
        ToolCallStart(index=1, id="b", name="g"),
        ToolCallArguments(index=1, text="{}"),
        last=finished("tool_calls"),
    )

    assert [(block.id, block.name, block.input) for block in message(told).content] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {}),
    ]
    assert [event["index"] for event in told if "index" in event] == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("written", "read"),
    [('{"x": 1, "y": "ab', {"x": 1}), ('{"x": [1, 2', {"x": [1, 2]}), ("{", {}), ("", {})],
)
def test_a_call_that_is_cut_off_has_what_is_whole_of_it(written: str, read: object) -> None:
    told = stream(
        ToolCallStart(index=0, id="a", name="f"),
        ToolCallArguments(index=0, text=written),
        last=finished("length"),
    )

    assert message(told).content[0].input == read


@pytest.mark.parametrize(
    ("last", "reason", "sequence"),
    [
        (finished(), "end_turn", None),
        (finished(stop="END"), "stop_sequence", "END"),
        (finished("length"), "max_tokens", None),
        (finished("tool_calls"), "tool_use", None),
    ],
)
def test_reasons_are_anthropics(last: ChatFinished, reason: str, sequence: str | None) -> None:
    ended = message(stream(ContentDelta("a"), last=last))

    assert (ended.stop_reason, ended.stop_sequence) == (reason, sequence)


def test_an_answer_that_ends_with_the_context_says_so() -> None:
    encoder = MessageEncoder(id="msg_1", model="m", context_tokens=16)

    (told, _) = encoder.end(finished("length"), USAGE)

    assert told["type"] == "message_delta"
    assert told["delta"]["stop_reason"] == "model_context_window_exceeded"


@pytest.mark.parametrize(("reason", "status"), [("abort", 503), ("error", 500)])
def test_a_failed_generation_is_a_failure(reason: str, status: int) -> None:
    with pytest.raises(ApiError) as failed:
        stream(last=finished(reason, error="broken"))

    assert (failed.value.status, failed.value.message) == (status, "broken")


PIECES = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=3).map(ContentDelta),
        st.text(min_size=1, max_size=3).map(ReasoningDelta),
    ),
    max_size=8,
)


@given(PIECES)
def test_blocks_alternate_and_lose_nothing(pieces: list[ContentDelta | ReasoningDelta]) -> None:
    content = message(stream(*pieces)).content

    assert [block.type for block in content] == [
        kind
        for n, piece in enumerate(pieces)
        if (kind := _kind(piece)) and (n == 0 or kind != _kind(pieces[n - 1]))
    ]
    said = "".join(b.text if b.type == "text" else b.thinking for b in content)
    assert said == "".join(piece.text for piece in pieces)


def _kind(piece: ContentDelta | ReasoningDelta) -> str:
    return "text" if isinstance(piece, ContentDelta) else "thinking"
