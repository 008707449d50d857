"""What a server's chunks mean, also those of servers that bend the protocol."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import AssistantMessage, Text, Thinking, ToolCall, VendorItem
from agentkit.errors import ModelError, RequestRefused
from agentkit.folding import fold
from agentkit.models.hosted.openai_chat import (
    MISTRAL,
    OPENROUTER,
)
from agentkit.usage import Timing
from tests.agentkit.models.hosted.openai_chat.chunks import CALLED, FULL, STOP, call, events, read
from tests.agentkit.models.hosted.openai_chat.talk import chunk, usage_chunk


def test_text_and_calls_become_one_turn() -> None:
    turn = read(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Loo"}),
        chunk({"content": "king"}),
        call(0, id="a", name="weather", arguments=""),
        call(0, arguments='{"city":'),
        call(1, id="b", name="lookup", arguments="{}"),
        call(0, arguments='"Ü"}'),
        CALLED,
        usage_chunk(**FULL),
    )

    assert turn.message == AssistantMessage(
        (
            Text("Looking"),
            ToolCall(id="a", name="weather", arguments='{"city":"Ü"}'),
            ToolCall(id="b", name="lookup", arguments="{}"),
        )
    )
    assert turn.finish == "tool_calls"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking_with_its_source(field: str) -> None:
    turn = read(chunk({field: "h"}), chunk({field: "m"}), chunk({"content": "Hi"}), STOP)

    assert turn.message.blocks == (Thinking("hm", source="m:x"), Text("Hi"))


def test_reasoning_that_is_sent_under_both_names_counts_once() -> None:
    turn = read(chunk({"reasoning": "hm", "reasoning_content": "hm"}), STOP)

    assert turn.message.blocks == (Thinking("hm", source="m:x"),)


def test_reasoning_in_content_parts_is_thinking() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    turn = read(
        chunk({"content": parts}),
        chunk({"content": [{"type": "text", "text": "Hi"}]}),
        STOP,
        profile=MISTRAL,
    )

    assert turn.message.blocks == (Thinking("hm", source="m:x"), Text("Hi"))


def test_reasoning_details_are_put_together_and_kept_for_the_next_request() -> None:
    def details(*items: dict[str, Any]) -> dict[str, Any]:
        return chunk({"reasoning_details": list(items)})

    turn = read(
        details({"type": "reasoning.text", "index": 0, "text": "h", "format": "anthropic"}),
        details({"type": "reasoning.text", "index": 0, "text": "m"}),
        details({"type": "reasoning.text", "index": 0, "signature": "sig/é"}),
        details({"type": "reasoning.encrypted", "index": 1, "data": "x"}),
        call(0, id="a", name="f", arguments="{}"),
        CALLED,
        profile=OPENROUTER,
    )

    items = [block for block in turn.message.blocks if isinstance(block, VendorItem)]
    assert [json.loads(item.data) for item in items] == [
        {
            "type": "reasoning.text",
            "index": 0,
            "text": "hm",
            "format": "anthropic",
            "signature": "sig/é",
        },
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]
    assert all(item.source == "m:x" for item in items)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("tool_calls", "stop"),  # without any call
    ],
)
def test_why_a_turn_ended(reason: str, finish: str) -> None:
    assert read(chunk({"content": "a"}), chunk({}, reason)).finish == finish


def test_calls_are_calls_even_if_the_server_says_stop() -> None:
    assert read(call(0, id="a", name="f", arguments="{}"), STOP).finish == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "kind", "retryable"),
    [
        ("insufficient_system_resource", ModelError, True),
        ("abort", ModelError, True),
        ("content_filter", RequestRefused, False),
    ],
)
def test_a_server_that_gives_up_or_withholds_says_so(
    reason: str, kind: type[ModelError], retryable: bool
) -> None:
    with pytest.raises(kind, match=reason) as caught:
        events(chunk({"content": "a"}), chunk({}, reason))

    assert caught.value.retryable is retryable


def test_a_stream_that_is_cut_off_may_be_asked_again() -> None:
    with pytest.raises(ModelError, match="m:x: the stream was cut off") as caught:
        events(chunk({"content": "a"}))

    assert caught.value.retryable


def test_a_refusal_is_what_the_model_says() -> None:
    assert read(chunk({"refusal": "I will not."}), STOP).message.text == "I will not."


def test_times_are_to_the_first_token_and_to_the_end() -> None:
    # The clock goes on by one second at each look: at the start, the first token, the end.
    turn = read(chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}), STOP)

    assert turn.timing == Timing(ttft_s=1.0, total_s=2.0)


def cut(text: str, places: list[int]) -> list[str]:
    """The text in pieces that end at these places."""
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


@given(
    thought=st.text(max_size=8),
    said=st.text(max_size=8),
    arguments=st.lists(st.text(max_size=8), max_size=3),
    places=st.lists(st.integers(0, 8), max_size=4),
)
def test_how_an_answer_is_cut_into_chunks_is_no_matter(
    thought: str, said: str, arguments: list[str], places: list[int]
) -> None:
    def answer(places: list[int]) -> list[dict[str, Any]]:
        begun = [call(n, id=f"c{n}", name="f") for n in range(len(arguments))]
        rest = [
            call(n, arguments=piece)
            for n, text in enumerate(arguments)
            for piece in cut(text, places)
        ]
        return [
            *(chunk({"reasoning": piece}) for piece in cut(thought, places)),
            *(chunk({"content": piece}) for piece in cut(said, places)),
            *begun,
            *rest,
            CALLED,
        ]

    assert read(*answer(places)).message == read(*answer([])).message
    assert [each.arguments for each in read(*answer(places)).message.calls] == arguments


@given(st.recursive(st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["choices", "delta", "content", "tool_calls", "index",
                                         "id", "function", "name", "arguments", "usage",
                                         "prompt_tokens", "finish_reason", "error"]),
                        inner, max_size=4), max_leaves=12))  # fmt: skip
def test_no_chunk_of_a_broken_server_breaks_the_reader(value: object) -> None:
    made: dict[str, Any] = {"choices": [{"delta": value, "finish_reason": "stop"}], "usage": value}
    with contextlib.suppress(ModelError):  # it says what is wrong
        fold(events(made, {"choices": value}, STOP))
