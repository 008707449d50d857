"""Chat events on the wire: the completion is the fold of the stream, whatever the chunking."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.encode import ChunkEncoder, Heading, encode_completion
from agentkit_runtime.api.openai.errors import error_body
from agentkit_runtime.api.sse import event
from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ContentDelta,
    ToolCallArguments,
    ToolCallStart,
)
from agentkit_runtime.types import RequestStats

HEADING = Heading(id="chatcmpl-1", created_s=1_700_000_000, model="m", fingerprint="fp_1")
STATS = RequestStats(
    prompt_tokens=30, cached_tokens=20, completion_tokens=5, queue_s=0.0, ttft_s=0.1, total_s=0.2
)
STOP = ChatFinished(reason="stop", stats=STATS)
CALLED = ChatFinished(reason="tool_calls", stats=STATS)


def chunks(events: list[ChatEvent], *, include_usage: bool = False) -> list[ChatCompletionChunk]:
    """The stream as a client sees it, validated strictly."""
    encoder = ChunkEncoder(heading=HEADING, include_usage=include_usage)
    documents = [document for found in events for document in encoder.encode(found)]
    return [ChatCompletionChunk.model_validate(document, strict=True) for document in documents]


def completion(events: list[ChatEvent]) -> ChatCompletion:
    return ChatCompletion.model_validate(encode_completion(HEADING, events), strict=True)


def call(index: int, name: str, *arguments: str) -> list[ChatEvent]:
    start = ToolCallStart(index=index, id=f"call_{index}", name=name)
    return [start, *(ToolCallArguments(index=index, text=text) for text in arguments)]


def test_an_answer_carries_text_reason_and_usage() -> None:
    answer = completion([ContentDelta("Hel"), ContentDelta("lo"), STOP])

    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello", "stop")
    assert choice.message.tool_calls is None
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (30, 35)
    assert answer.usage.prompt_tokens_details.cached_tokens == 20


def test_an_answer_that_is_only_a_call_has_null_content() -> None:
    answer = completion([*call(0, "f", '{"x":', " 1}"), CALLED])

    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")


def test_an_empty_answer_has_empty_content() -> None:
    assert completion([STOP]).choices[0].message.content == ""


def test_a_stream_says_the_role_once_and_the_reason_last() -> None:
    stream = chunks([ContentDelta("a"), ContentDelta("b"), STOP])

    assert [chunk.choices[0].delta.role for chunk in stream] == ["assistant", None, None]
    assert [chunk.choices[0].finish_reason for chunk in stream] == [None, None, "stop"]
    assert {chunk.id for chunk in stream} == {"chatcmpl-1"}


def test_a_call_streams_its_id_and_name_first_and_then_only_arguments() -> None:
    """R44."""
    first, second, third, _ = chunks([*call(0, "f", "{", "}"), CALLED])

    opening = first.choices[0].delta.tool_calls[0]  # type: ignore[index]
    assert (opening.id, opening.type, opening.function.name) == ("call_0", "function", "f")  # type: ignore[union-attr]
    for chunk in (second, third):
        piece = chunk.choices[0].delta.tool_calls[0]  # type: ignore[index]
        assert (piece.index, piece.id, piece.function.name) == (0, None, None)  # type: ignore[union-attr]


def test_usage_comes_in_a_last_chunk_without_choices_when_asked_for() -> None:
    """R46. Fault: streams said nothing of usage or of cached tokens."""
    *others, last = chunks([ContentDelta("a"), STOP], include_usage=True)

    assert last.choices == []
    assert last.usage is not None
    assert last.usage.prompt_tokens_details is not None
    assert last.usage.prompt_tokens_details.cached_tokens == 20
    assert all(chunk.usage is None for chunk in others)


def test_usage_is_absent_when_not_asked_for() -> None:
    encoder = ChunkEncoder(heading=HEADING, include_usage=False)

    assert all("usage" not in document for document in encoder.encode(STOP))


@pytest.mark.parametrize(("reason", "status"), [("error", 500), ("abort", 503)])
def test_a_failed_generation_is_an_error_and_not_an_answer(reason: str, status: int) -> None:
    failed = ChatFinished(reason=reason, stats=STATS, error="why")  # type: ignore[arg-type]

    with pytest.raises(ApiError, match="why") as raised:
        completion([ContentDelta("half"), failed])
    (document,) = ChunkEncoder(heading=HEADING, include_usage=True).encode(failed)

    assert raised.value.status == status
    assert document == error_body(raised.value)


def splits(text: str) -> st.SearchStrategy[list[str]]:
    """All ways to cut `text` into pieces."""
    cuts = st.lists(st.integers(0, len(text)), max_size=8).map(sorted)
    return cuts.map(lambda at: [text[a:b] for a, b in pairwise([0, *at, len(text)])])


texts = st.text(st.characters(codec="utf-8"), max_size=30)


@st.composite
def replies(draw: st.DrawFn) -> list[ChatEvent]:
    """Content, then calls, each in any pieces."""
    events: list[ChatEvent] = [ContentDelta(piece) for piece in draw(draw(texts.map(splits)))]
    n_calls = draw(st.integers(0, 3))
    for index in range(n_calls):
        arguments = json.dumps({"x": draw(texts)}, ensure_ascii=draw(st.booleans()))
        events += call(index, f"f{index}", *draw(splits(arguments)))
    return [*events, CALLED if n_calls else STOP]


@given(replies())
def test_the_stream_adds_up_to_the_answer(events: list[ChatEvent]) -> None:
    message = completion(events).choices[0].message
    content, arguments, names = "", {}, {}
    for chunk in chunks(events):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for piece in delta.tool_calls or ():
            assert piece.function is not None
            names.setdefault(piece.index, piece.function.name)
            arguments[piece.index] = arguments.get(piece.index, "") + piece.function.arguments

    assert content == (message.content or "")
    whole = [found.function for found in message.tool_calls or ()]  # type: ignore[union-attr]
    assert list(arguments.values()) == [function.arguments for function in whole]
    assert list(names.values()) == [function.name for function in whole]


@given(texts)
def test_an_event_is_one_line_for_every_client(text: str) -> None:
    """Line splitters differ: str.splitlines also cuts at U+2028, U+0085 and form feeds."""
    line, *rest = event({"text": text}).decode().splitlines()

    assert rest == [""]
    assert json.loads(line.removeprefix("data: ")) == {"text": text}
