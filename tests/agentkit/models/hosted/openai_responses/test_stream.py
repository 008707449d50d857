"""The API's events become ours, however they are cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import Text, Thinking, ToolCall, VendorItem
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import ModelEnd, ModelEvent, UsageEvent, VendorItemEvent
from agentkit.folding import fold
from agentkit.models.hosted.openai_responses.stream import Translator, cache_note, usage_of
from agentkit.usage import Timing, Usage
from tests.agentkit.models.hosted.openai_responses.talk import (
    ARGUMENTS,
    LABEL,
    REASONING,
    added,
    completed,
    created,
    done,
    text,
)

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather"}
USAGE = {
    "input_tokens": 2006,
    "input_tokens_details": {
        "cached_tokens": 1024,
        "cache_write_tokens": 900,
        "cache_write_tokens_details": {"ttl_30m_tokens": 600, "ttl_12h_tokens": 300},
    },
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 2036,
}


def translated(*events: Mapping[str, Any]) -> list[ModelEvent]:
    seconds = itertools.count()
    translator = Translator(LABEL, lambda: float(next(seconds)))
    return [made for event in events for made in translator.push(event)]


def arguments(delta: str, index: int) -> dict[str, Any]:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": index, "delta": delta}


def summary(delta: str) -> dict[str, Any]:
    return {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": delta}


def test_a_whole_turn_is_folded_in_order() -> None:
    reasoning = json.loads(REASONING.data)
    turn = fold(
        translated(
            created(),
            added({"type": "reasoning", "id": "rs_1", "summary": []}),
            {"type": "response.reasoning_summary_part.added", "summary_index": 0},
            summary("First."),
            {"type": "response.reasoning_summary_part.added", "summary_index": 1},
            summary("Then."),
            done(reasoning),
            added({"type": "message", "role": "assistant", "content": []}, 1),
            text("Look", 1),
            text("ing.", 1),
            done({"type": "message", "content": [{"type": "output_text", "text": "Looking."}]}, 1),
            added(CALL | {"arguments": ""}, 2),
            arguments(ARGUMENTS[:5], 2),
            arguments(ARGUMENTS[5:], 2),
            {"type": "response.function_call_arguments.done", "arguments": ARGUMENTS},
            done(CALL | {"arguments": ARGUMENTS, "status": "completed"}, 2),
            completed(USAGE),
        )
    )

    assert turn.message.blocks == (
        Thinking("First.\n\nThen.", source=LABEL),
        VendorItem(source=LABEL, data=REASONING.data),
        Text("Looking."),
        ToolCall(id="call_1", name="weather", arguments=ARGUMENTS),
    )
    assert turn.finish == "tool_calls"
    assert turn.usage == Usage(
        input_tokens=2006,
        cache_read_tokens=1024,
        cache_write_tokens=900,
        cache_write_long_tokens=300,
        output_tokens=30,
    )


def test_parallel_calls_keep_their_own_arguments() -> None:
    turn = fold(
        translated(
            added(CALL | {"arguments": ""}, 0),
            added(CALL | {"call_id": "call_2", "arguments": ""}, 1),
            arguments('{"a"', 0),
            arguments('{"b"', 1),
            arguments(":1}", 0),
            arguments(":2}", 1),
            completed(),
        )
    )

    assert [(call.id, call.arguments) for call in turn.message.calls] == [
        ("call_1", '{"a":1}'),
        ("call_2", '{"b":2}'),
    ]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=6))
def test_deltas_and_the_finished_item_add_up_to_the_same_call(parts: list[str]) -> None:
    whole = "".join(parts)
    finished = done(CALL | {"arguments": whole}, 0)
    for n_deltas in range(len(parts) + 1):
        deltas = [arguments(part, 0) for part in parts[:n_deltas]]
        events = [added(CALL | {"arguments": ""}), *deltas, finished, completed()]

        [call] = fold(translated(*events)).message.calls

        assert call.arguments == whole


def test_an_item_that_comes_only_when_it_is_done_is_whole() -> None:
    turn = fold(
        translated(
            done({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}, 0),
            done(CALL | {"arguments": "{}"}, 1),
            completed(),
        )
    )

    assert turn.message.blocks == (
        Text("Hi"),
        ToolCall(id="call_1", name="weather", arguments="{}"),
    )


def test_a_stream_that_contradicts_its_end_is_an_error() -> None:
    events = [added(CALL), arguments('{"a":1}', 0), done(CALL | {"arguments": '{"a":2}'}, 0)]

    with pytest.raises(ModelError, match="contradicts itself") as caught:
        translated(*events)
    assert caught.value.retryable


def test_arguments_without_a_call_are_an_error() -> None:
    with pytest.raises(ModelError, match="arguments of a call that it never began"):
        translated(arguments("{}", 3))


def test_the_phase_of_a_message_comes_before_its_text() -> None:
    turn = fold(
        translated(
            added({"type": "message", "phase": "commentary"}, 0),
            text("On it.", 0),
            added({"type": "message", "phase": "final_answer"}, 1),
            text("Done.", 1),
            completed(),
        )
    )

    assert turn.message.blocks == (
        VendorItem(source=LABEL, data='{"phase":"commentary"}'),
        Text("On it."),
        VendorItem(source=LABEL, data='{"phase":"final_answer"}'),
        Text("Done."),
    )


def test_other_items_are_kept_as_they_came() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Ä/="}

    [event, *_] = translated(done(item), completed())

    assert event == VendorItemEvent(
        source=LABEL, data='{"type":"compaction","id":"cmp_1","encrypted_content":"Ä/="}'
    )


def test_a_refusal_is_what_the_model_says() -> None:
    turn = fold(
        translated(
            {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}, completed()
        )
    )

    assert (turn.message.text, turn.finish) == ("No.", "stop")


def test_an_answer_that_was_cut_at_its_limit_ends_by_length() -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}}

    turn = fold(
        translated(added(CALL), arguments('{"a', 0), completed({}, "incomplete", **details))
    )

    assert turn.finish == "length"


def test_a_filtered_answer_is_refused() -> None:
    details = {"incomplete_details": {"reason": "content_filter"}}

    with pytest.raises(RequestRefused, match="content filter stopped the answer"):
        translated(completed({}, "incomplete", **details))


@pytest.mark.parametrize(
    ("code", "retryable", "kind"),
    [
        ("server_error", True, ModelError),
        ("rate_limit_exceeded", True, ModelError),
        ("invalid_prompt", False, RequestRefused),
        ("image_too_large", False, RequestRefused),
        ("something_new", False, ModelError),
    ],
)
@pytest.mark.parametrize("way", ["failed", "error"])
def test_a_failure_says_whether_to_ask_again(
    way: str, code: str, retryable: bool, kind: type[ModelError]
) -> None:
    error = {"code": code, "message": "Sorry."}
    event = completed(None, "failed", error=error) if way == "failed" else {"type": "error"} | error

    with pytest.raises(ModelError, match=r"openai:gpt-6-sol: Sorry\.") as caught:
        translated(event)

    assert type(caught.value) is kind
    assert caught.value.retryable is retryable


def test_a_failed_response_still_says_what_it_used() -> None:
    seen: list[ModelEvent] = []
    translator = Translator(LABEL, lambda: 0.0)

    with pytest.raises(ModelError):
        seen.extend(translator.push(completed(USAGE, "failed", error={"code": "server_error"})))

    assert isinstance(seen[0], UsageEvent)
    assert seen[0].usage.input_tokens == 2006


def test_usage_that_comes_alone_in_the_last_event_is_counted() -> None:
    """C74: a final event that holds nothing but usage is thrown away, and reads are always 0."""
    turn = fold(translated(text("Hi"), completed(USAGE, output=[])))

    assert turn.usage.cache_read_tokens == 1024
    assert turn.usage.input_tokens == 2006


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"cached_tokens": 7}, (7, None, None)),
        ({"cached_tokens": 7, "cache_write_tokens": 0}, (7, 0, None)),
        ({"cached_tokens": 0, "cache_write_tokens": 5}, (0, 5, None)),
        (USAGE["input_tokens_details"], (1024, 900, 300)),
        ({"cached_tokens": None}, (None, None, None)),
        ({}, (None, None, None)),
        (None, (None, None, None)),
        ("odd", (None, None, None)),
    ],
)
def test_what_was_read_and_written_is_visible_and_what_is_absent_is_unknown(
    details: object, expected: tuple[int | None, ...]
) -> None:
    """C80: the API says what it read, and the fields are mapped nowhere."""
    usage = usage_of({"input_tokens": 9000, "input_tokens_details": details})

    found = (usage.cache_read_tokens, usage.cache_write_tokens, usage.cache_write_long_tokens)
    assert found == expected
    assert (usage.input_tokens, usage.output_tokens) == (9000, None)


def test_the_vendors_diagnosis_is_one_line() -> None:
    miss = {
        "type": "cache_miss",
        "reason": "tools_changed",
        "cache_missed_tokens": 1200,
        "comparison_reusable_tokens": 900,
    }

    [usage, _] = translated(completed(USAGE, prompt_cache_diagnostics=miss))

    assert isinstance(usage, UsageEvent)
    assert usage.cache_note == (
        "cache_miss: tools_changed, 1200 tokens missed, 900 tokens were reusable"
    )
    assert cache_note({"type": "cache_hit"}) == "cache_hit"
    assert translated(completed(USAGE))[0] == UsageEvent(
        usage=usage_of(USAGE), timing=Timing(ttft_s=None, total_s=1.0)
    )


def test_the_first_token_is_timed_and_told_at_once_also_if_it_is_hidden_thinking() -> None:
    # The clock gives 0 at the start, then 1, 2, ... each time it is read.
    first, *_, usage, end = translated(
        created(), added({"type": "reasoning"}), text("Hi", 1), completed(USAGE)
    )

    assert first == UsageEvent(usage=Usage(), timing=Timing(ttft_s=1.0))
    assert isinstance(usage, UsageEvent)
    assert usage.timing == Timing(ttft_s=1.0, total_s=2.0)
    assert end == ModelEnd("stop")


def test_events_that_are_not_known_say_nothing() -> None:
    assert translated({"type": "response.queued"}, {"type": "response.new_thing", "x": 1}, {}) == []
