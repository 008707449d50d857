"""What a server's chunks mean, also those of servers that bend the protocol."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import AssistantMessage, Text, Thinking, ToolCall, VendorItem
from agentkit.caching.policy import InputSplit, Ttl, UsageField
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import ModelEnd, ModelEvent, Turn, UsageEvent, fold
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    GROQ,
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    VLLM,
    Profile,
)
from agentkit.models.hosted.openai_chat.stream import ChunkReader
from agentkit.usage import Timing, Usage
from tests.agentkit.models.hosted.openai_chat.talk import Clock, chunk, usage_chunk

VLLM_USAGE = UsageField(
    path="usage.prompt_tokens_details.cached_tokens",
    written_path="usage.prompt_tokens_details.created_cache_tokens",
)


def events(*chunks: Mapping[str, Any], profile: Profile = OPENAI) -> list[ModelEvent]:
    reader = ChunkReader("m:x", profile, profile.usage or VLLM_USAGE, Clock())
    found = [event for each in chunks for event in reader.push(each)]
    return [*found, *reader.finish()]


def read(*chunks: Mapping[str, Any], profile: Profile = OPENAI) -> Turn:
    return fold(events(*chunks, profile=profile))


def call(index: int | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with one call delta."""
    function = {k: more.pop(k) for k in ("name", "arguments") if k in more}
    delta = {"index": index, **more, "function": function}
    return chunk({"tool_calls": [{k: v for k, v in delta.items() if v is not None}]})


STOP, CALLED = chunk({}, "stop"), chunk({}, "tool_calls")
FULL = {
    "prompt_tokens": 1_000,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
}


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


def test_the_usage_of_a_last_chunk_without_choices_counts() -> None:
    """C74: with include_usage the numbers come in a chunk that has no choices."""
    turn = read(chunk({"content": "Hi"}), STOP, usage_chunk(**FULL))

    assert turn.usage == Usage(
        input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=300, output_tokens=7
    )


def test_usage_is_known_as_soon_as_it_comes_and_again_at_the_end() -> None:
    found = events(chunk({"content": "Hi"}, usage=FULL), STOP)

    usages = [event for event in found if isinstance(event, UsageEvent)]
    assert [event.usage.input_tokens for event in usages] == [1_000, 1_000]
    assert found[-2] is usages[-1]
    assert found[-1] == ModelEnd("stop")


@pytest.mark.parametrize(
    ("profile", "usage", "read_tokens", "written"),
    [
        (OPENAI, FULL, 600, 300),
        (OPENROUTER, FULL, 600, 300),
        (MOONSHOT, FULL, 600, 300),
        (MOONSHOT, {"prompt_tokens": 1_000, "cached_tokens": 600}, 600, None),
        (
            DEEPSEEK,
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3},
            6,
            None,
        ),
        (DEEPSEEK, {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 6}}, 6, None),
        (
            VLLM,
            {"prompt_tokens_details": {"cached_tokens": 16, "created_cache_tokens": 32}},
            16,
            32,
        ),
        (MISTRAL, {"prompt_tokens": 64, "prompt_tokens_details": {"cached_tokens": 64}}, 64, None),
        (OPENAI, {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}, 0, None),
        (VLLM, {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6}, 6, None),
        (OPENAI, {"prompt_tokens": 9, "prompt_tokens_details": None}, None, None),
        (OPENAI, {"prompt_tokens": 9}, None, None),
    ],
)
def test_cached_usage_is_visible_in_every_servers_words(
    profile: Profile, usage: dict[str, Any], read_tokens: int | None, written: int | None
) -> None:
    """C80: any field that counts cached tokens is mapped; what is absent is unknown, not 0."""
    found = read(STOP, usage_chunk(**usage), profile=profile).usage

    assert (found.cache_read_tokens, found.cache_write_tokens) == (read_tokens, written)


def test_hits_and_misses_are_the_input_where_it_is_not_given() -> None:
    usage = {"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3}

    assert read(STOP, usage_chunk(**usage), profile=DEEPSEEK).usage.input_tokens == 9


def test_a_server_that_counts_reads_beside_its_input_is_neither_clamped_nor_negative() -> None:
    """C76: what is neither read nor written is what the server says, not 0 and not below."""
    usage = {
        "prompt_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 100},
    }
    found = read(STOP, usage_chunk(**usage)).usage

    assert found.input_tokens == 1_050
    plain = read(STOP, usage_chunk(**FULL)).usage
    for each, base in ((found, 50), (plain, 100)):
        assert each.input_tokens is not None
        split = InputSplit(
            read=each.cache_read_tokens or 0,
            writes=((Ttl.FIVE_MINUTES, each.cache_write_tokens or 0),),
            uncached=base,
        )
        assert split.total == each.input_tokens


def test_usage_that_grows_in_a_stream_ends_as_if_it_had_come_at_once() -> None:
    """C70: counts that come with every chunk are not added up: same usage, same cost."""
    growing = read(
        chunk({"content": "a"}, usage={**FULL, "completion_tokens": 1}),
        chunk({"content": "b"}, usage={**FULL, "completion_tokens": 4}),
        STOP,
        usage_chunk(**FULL),
    ).usage

    assert growing == read(STOP, usage_chunk(**FULL)).usage


def test_a_later_count_refines_an_earlier_one_field_by_field() -> None:
    """C73: a last chunk that has only the output keeps what was read before."""
    found = read(
        chunk({"content": "a"}, usage=FULL),
        STOP,
        usage_chunk(prompt_tokens=None, prompt_tokens_details=None, completion_tokens=9),
    ).usage

    assert found == Usage(
        input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=300, output_tokens=9
    )


def test_usage_is_found_where_the_server_hides_it() -> None:
    hidden = chunk({}, "stop")
    hidden["choices"][0]["usage"] = FULL

    assert read(hidden, profile=MOONSHOT).usage.input_tokens == 1_000
    turn = read(chunk({}, "stop", x_groq={"usage": FULL}), profile=GROQ)
    assert turn.usage.cache_read_tokens == 600


@pytest.mark.parametrize(
    "deltas",
    [
        [
            call(0, id="a", name="f", arguments="1"),
            call(0, id="b", name="g", arguments="2"),
            call(0, arguments="3"),
        ],
        [call(None, id="a", name="f", arguments="1"), call(None, id="b", name="g", arguments="23")],
        [
            call(None, id="a", name="f", arguments="1"),
            call(None, id="b", name="g"),
            call(None, arguments="2"),
            call(None, arguments="3"),
        ],
        [call(0, id="a"), call(0, arguments="1"), call(0, name="f"), call(1, id="b", name="g"),
         call(1, arguments="23")],
        [call(0, id="a", name="f", arguments=1), call(1, id="b", name="g", arguments=23)],
    ],
    ids=["index 0 twice", "no index", "no index, many deltas", "name last", "no text"],
)  # fmt: skip
def test_calls_of_careless_servers_are_read_as_they_are_meant(
    deltas: list[dict[str, Any]],
) -> None:
    calls = read(*deltas, CALLED).message.calls

    assert calls == (
        ToolCall(id="a", name="f", arguments="1"),
        ToolCall(id="b", name="g", arguments="23"),
    )


def test_calls_without_ids_get_different_ones() -> None:
    deltas = [call(None, name="f", arguments="{}"), call(None, name="g", arguments="{}")]

    calls = read(*deltas, CALLED).message.calls

    assert [each.name for each in calls] == ["f", "g"]
    assert [each.id for each in calls] == ["c1-0", "c1-1"]


def test_one_id_for_two_calls_becomes_two() -> None:
    calls = read(
        call(0, id="a", name="f", arguments="{}"),
        call(1, id="a", name="f", arguments="{}"),
        CALLED,
    ).message.calls

    assert len({each.id for each in calls}) == 2


def test_an_id_that_is_repeated_with_every_delta_is_one_call() -> None:
    calls = read(
        call(0, id="a", name="f", arguments="{"), call(0, id="a", arguments="}"), CALLED
    ).message.calls

    assert calls == (ToolCall(id="a", name="f", arguments="{}"),)


def test_a_call_without_a_name_is_an_error_that_may_pass() -> None:
    with pytest.raises(ModelError, match="m:x sent a tool call without a name") as caught:
        read(call(0, id="a", arguments="{}"), CALLED)

    assert caught.value.retryable


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
