"""`fold` turns a model's stream into a turn, however the stream is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import AssistantMessage, Text, Thinking, ToolCall
from agentkit.errors import ModelError
from agentkit.events import (
    ModelEnd,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
)
from agentkit.folding import fold
from agentkit.usage import Timing, Usage

ANSWER = "Ein Satz, dann eine Zahl: 1.234 — 語 🙂"
ARGUMENTS = ['{"a": 1, "b": "x y"}', '{"path":"ä/b"}']


def cut(text: str, points: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(point % (len(text) + 1) for point in points)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(st.integers(0, 200), max_size=12), st.randoms())
def test_cutting_deltas_elsewhere_gives_the_same_turn(points: list[int], random: object) -> None:
    events: list[ModelEvent] = [ThinkingDelta(text=part) for part in cut("hm, well", points)]
    events += [TextDelta(part) for part in cut(ANSWER, points)]
    events += [ToolCallStarted(index=i, id=f"c{i}", name="f") for i in (0, 1)]
    # Argument deltas of parallel calls may come in any mixture.
    deltas = [
        [ToolCallArguments(index=i, text=part) for part in cut(ARGUMENTS[i], points)]
        for i in (0, 1)
    ]
    while any(deltas):
        queue = random.choice([queue for queue in deltas if queue])  # type: ignore[attr-defined]
        events.append(queue.pop(0))
    events.append(ModelEnd("tool_calls"))

    turn = fold(events)

    assert turn.message == AssistantMessage(
        (
            Thinking("hm, well"),
            Text(ANSWER),
            ToolCall(id="c0", name="f", arguments=ARGUMENTS[0]),
            ToolCall(id="c1", name="f", arguments=ARGUMENTS[1]),
        )
    )
    assert turn.finish == "tool_calls"


def test_later_usage_refines_earlier_usage_field_by_field() -> None:
    """Regression elsewhere (C73): the last usage replaced the first and lost the cache counts."""
    turn = fold(
        [
            UsageEvent(usage=Usage(input_tokens=1000, cache_read_tokens=900)),
            TextDelta("x"),
            UsageEvent(usage=Usage(output_tokens=1), timing=Timing(ttft_s=0.5)),
            ModelEnd("stop"),
        ]
    )

    assert turn.usage == Usage(input_tokens=1000, cache_read_tokens=900, output_tokens=1)
    assert turn.timing.ttft_s == 0.5


def test_a_stream_without_its_end_was_cut_off_and_may_be_asked_again() -> None:
    with pytest.raises(ModelError, match="cut off") as caught:
        fold([TextDelta("half an ans")])
    assert caught.value.retryable


@pytest.mark.parametrize(
    "events",
    [
        [ToolCallArguments(index=0, text="{}")],
        [ToolCallStarted(index=0, id="a", name="f"), ToolCallStarted(index=0, id="b", name="f")],
        [ToolCallStarted(index=0, id="a", name="f"), ToolCallStarted(index=1, id="a", name="f")],
        [ModelEnd("stop"), TextDelta("x")],
    ],
)
def test_streams_that_break_the_protocol_are_refused(events: list[ModelEvent]) -> None:
    with pytest.raises(ModelError) as caught:
        fold(events)
    assert not caught.value.retryable


def test_a_signature_closes_its_thinking_block() -> None:
    turn = fold(
        [
            ThinkingDelta(text="a"),
            ThinkingDelta(text="", signature="s1"),
            ThinkingDelta(text="b", signature="s2"),
            ModelEnd("stop"),
        ]
    )

    assert turn.message.blocks == (Thinking("a", "s1"), Thinking("b", "s2"))


def test_nothing_said_is_a_turn_without_blocks() -> None:
    assert fold([ModelEnd("stop")]).message == AssistantMessage(())


def test_half_a_character_from_a_broken_model_is_spelled_out() -> None:
    assert fold([TextDelta("a\ud83d"), ModelEnd("stop")]).message.text == "a\\ud83d"
