"""Requests through the official client: the bytes that are sent, the events that come back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from google.genai import Client
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import AssistantMessage, Text, Thinking, ToolCall, UserMessage, VendorItem
from agentkit.context import Context
from agentkit.errors import ConfigurationError, ModelError, RequestRefused
from agentkit.events import ModelEnd, TextDelta, Turn, UsageEvent, VendorItemEvent
from agentkit.folding import TurnBuilder, fold
from agentkit.models.hosted.gemini import GeminiAdapter, GeminiOptions
from agentkit.models.hosted.gemini.decode import Reader
from agentkit.models.hosted.gemini.rawjson import raw_value
from agentkit.models.hosted.wire import Body
from agentkit.usage import Usage
from tests.agentkit.models.hosted.gemini.talk import (
    LABEL,
    MODEL,
    OK,
    FakeServer,
    context,
    events_of,
    finished,
    json_of,
    refusal,
    request,
    said,
    sse,
)

BODY = Body(data=b'{"contents":[{"role":"user","parts":[{"text":"x"}]}]}')


async def turn_of(*events: object) -> Turn:
    server = FakeServer().reply("stream", httpx2.Response(200, content=sse(*events)))
    return fold(await events_of(server.adapter().stream(BODY)))


async def error_of(*replies: Any) -> ModelError:
    server = FakeServer().reply("stream", *replies)
    with pytest.raises(ModelError) as caught:
        await events_of(server.adapter().stream(BODY))
    return caught.value


async def test_the_client_sends_exactly_the_finished_bytes() -> None:
    server = FakeServer()
    adapter = server.adapter()
    body = finished(adapter, request(context().with_volatile("à midi \u2028")))

    await events_of(adapter.stream(body))

    (sent,) = server.sent
    assert sent.content == body.data
    assert sent.url.path.endswith(f"/models/{MODEL}:streamGenerateContent")
    assert sent.url.query == b"alt=sse"
    assert sent.headers["x-goog-api-key"] == "test"
    assert sent.headers["content-type"] == "application/json"


async def test_text_thoughts_and_calls_become_one_turn() -> None:
    turn = await turn_of(
        said({"text": "Let me ", "thought": True}, finish=None),
        said({"text": "think.", "thought": True}, {"text": "I will "}, finish=None),
        said({"text": "look.\u2028"}, finish=None),
        said(
            {"functionCall": {"name": "look", "args": {"path": "a"}, "id": "fc-9"}},
            {"functionCall": {"name": "add"}},
        ),
    )

    assert turn.message.blocks == (
        Thinking("Let me think.", None, LABEL),
        Text("I will look.\u2028"),
        ToolCall(id="fc-9", name="look", arguments='{"path": "a"}'),
        ToolCall(id="gemini_call_resp_1", name="add", arguments="{}"),
    )
    assert turn.finish == "tool_calls"


async def test_arguments_keep_the_characters_that_the_api_sent() -> None:
    arguments = '{ "zoom" : 1.0, "n": 1e2, "path":"\\u00e9é", "a": {"b":[ 1 , 2.50 ]} }'
    event = (
        '{"candidates":[{"content":{"parts":[{"text":"a \\"args\\": {}"},'
        '{"functionCall":{"args":' + arguments + ',"name":"look"}}]},"finishReason":"STOP"}]}'
    )

    turn = await turn_of(event.encode())

    assert turn.message.calls[0].arguments == arguments


async def test_a_turn_goes_back_in_the_parts_that_it_came_in() -> None:
    parts = [
        {"text": "signed", "thoughtSignature": "YQ=="},
        {"text": "plain"},
        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        {
            "functionCall": {"id": "1", "name": "add", "args": {"b": 1.0}},
            "thoughtSignature": "Yg==",
        },
        {"functionCall": {"id": "2", "name": "add", "args": {}}},
        {"text": "", "thoughtSignature": "Yw=="},
    ]
    server = FakeServer().reply("stream", httpx2.Response(200, content=sse(said(*parts))))
    adapter = server.adapter()
    turn = fold(await events_of(adapter.stream(BODY)))

    results = [{"call_id": call.id, "name": call.name} for call in turn.message.calls]
    assert results == [{"call_id": "1", "name": "add"}, {"call_id": "2", "name": "add"}]
    talk = Context(UserMessage.of("x"), AssistantMessage(turn.message.blocks))
    data = finished(adapter, request(talk)).data

    assert json_of(data)["contents"][1]["parts"] == parts


@given(st.data())
def test_however_texts_and_signatures_are_mixed_the_parts_come_back(data: Any) -> None:
    text = {"text": st.text(min_size=1).filter(_has_utf8)}
    parts = data.draw(
        st.lists(
            st.one_of(
                st.fixed_dictionaries(text),
                st.fixed_dictionaries({**text, "thoughtSignature": st.just("cw==")}),
                st.just({"text": "", "thoughtSignature": "ZQ=="}),
            ),
            min_size=1,
        )
    )
    reader = Reader(LABEL)
    turn = fold([*reader.read(json.dumps(said(*parts))), *reader.end()])
    talk = request(Context(UserMessage.of("x"), turn.message))
    sent = json_of(finished(GeminiAdapter(MODEL), talk).data)

    assert _merged(sent["contents"][1]["parts"]) == _merged(parts)


async def test_usage_counts_cached_input_and_thoughts() -> None:
    """C80: what was read from a cache is visible, whatever else is there."""
    turn = await turn_of(
        said({"text": "a"}, finish=None, promptTokenCount=5_000, cachedContentTokenCount=4_096),
        said(
            {"text": "b"},
            promptTokenCount=5_000,
            cachedContentTokenCount=4_096,
            toolUsePromptTokenCount=7,
            candidatesTokenCount=20,
            thoughtsTokenCount=300,
            totalTokenCount=5_327,
        ),
    )

    assert turn.usage == Usage(
        input_tokens=5_007,
        cache_read_tokens=4_096,
        cache_write_tokens=0,
        cache_write_long_tokens=0,
        output_tokens=320,
    )
    assert turn.timing.ttft_s is not None
    assert turn.timing.total_s is not None


async def test_zeros_that_the_api_leaves_out_are_zeros_only_beside_a_prompts_count() -> None:
    known = await turn_of(said({"text": "a"}, promptTokenCount=9, totalTokenCount=9))
    assert known.usage == Usage(
        input_tokens=9,
        cache_read_tokens=0,
        cache_write_tokens=0,
        cache_write_long_tokens=0,
        output_tokens=0,
    )

    silent = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}
    assert (await turn_of(silent)).usage == Usage()
    odd = {**silent, "usageMetadata": {"cachedContentTokenCount": 5}}
    assert (await turn_of(odd)).usage == Usage()


async def test_what_was_read_is_known_before_the_answer_is_over() -> None:
    first = said({"text": "a"}, finish=None, promptTokenCount=10, cachedContentTokenCount=4)
    server = FakeServer().reply("stream", httpx2.Response(200, content=sse(first, said())))
    stream = server.adapter().stream(BODY)

    event = await anext(stream)
    await stream.aclose()

    assert isinstance(event, UsageEvent)
    assert event.usage == Usage(input_tokens=10, cache_read_tokens=4)


@pytest.mark.parametrize(
    ("reason", "finish"), [("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length")]
)
async def test_finish_reasons_are_translated(reason: str, finish: str) -> None:
    turn = await turn_of(said({"text": "a"}, finish=reason))

    assert turn.finish == finish


@pytest.mark.parametrize(
    ("reason", "refused", "retryable"),
    [
        ("SAFETY", True, False),
        ("PROHIBITED_CONTENT", True, False),
        ("MISSING_THOUGHT_SIGNATURE", True, False),
        ("SOMETHING_NEW", True, False),
        ("MALFORMED_FUNCTION_CALL", False, True),
        ("MALFORMED_RESPONSE", False, True),
        ("RECITATION", False, True),
    ],
)
async def test_an_answer_that_ends_badly_is_an_error_and_its_cost_is_known(
    reason: str, refused: bool, retryable: bool
) -> None:
    server = FakeServer().reply("stream", httpx2.Response(200, content=sse(said(finish=reason))))
    builder = TurnBuilder()

    async def read() -> None:
        async for event in server.adapter().stream(BODY):
            builder.push(event)

    with pytest.raises(ModelError, match=reason) as caught:
        await read()

    assert isinstance(caught.value, RequestRefused) is refused
    assert caught.value.retryable is retryable
    assert builder.spent[0].input_tokens == 10


async def test_a_blocked_prompt_is_refused() -> None:
    error = await error_of(
        httpx2.Response(200, content=sse({"promptFeedback": {"blockReason": "SAFETY"}}))
    )

    assert isinstance(error, RequestRefused)
    assert "SAFETY" in str(error)


async def test_an_answer_that_stops_half_way_may_be_asked_for_again() -> None:
    error = await error_of(httpx2.Response(200, content=sse(said({"text": "a"}, finish=None))))

    assert error.retryable


async def test_an_error_in_the_middle_of_a_stream_is_raised() -> None:
    broken = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}}
    for content in (sse(said({"text": "a"}, finish=None), broken), json.dumps([broken], indent=1)):
        error = await error_of(httpx2.Response(200, content=content))
        assert error.retryable
        assert "overloaded" in str(error)


async def test_limits_and_overloads_are_retryable_and_say_how_long_to_wait() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.5s"}
    limited = await error_of(refusal(429, "RESOURCE_EXHAUSTED", "slow down", info))
    assert (limited.retryable, limited.retry_after_s) == (True, 12.5)

    header = httpx2.Response(503, json={"error": {"code": 503}}, headers={"Retry-After": "3"})
    overloaded = await error_of(header)
    assert (overloaded.retryable, overloaded.retry_after_s) == (True, 3.0)

    daily = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}
    spent = await error_of(refusal(429, "RESOURCE_EXHAUSTED", "quota", daily, info))
    assert not spent.retryable


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refusal(400, "INVALID_ARGUMENT", "bad", {"reason": "API_KEY_INVALID"}), "GOOGLE_API_KEY"),
        (refusal(401, "UNAUTHENTICATED", "who?"), "GOOGLE_API_KEY"),
        (refusal(403, "PERMISSION_DENIED", "no"), "GOOGLE_API_KEY"),
    ],
)
async def test_a_wrong_key_names_the_variable(reply: httpx2.Response, words: str) -> None:
    error = await error_of(reply)

    assert words in str(error)
    assert not error.retryable
    assert not isinstance(error, RequestRefused)


@pytest.mark.parametrize("code", [400, 404, 413])
async def test_a_request_that_can_never_be_served_is_refused(code: int) -> None:
    error = await error_of(refusal(code, "INVALID_ARGUMENT", "contents are empty"))

    assert isinstance(error, RequestRefused)
    assert "contents are empty" in str(error)


async def test_nothing_is_retried_behind_the_loops_back() -> None:
    server = FakeServer().reply("stream", httpx2.Response(503, json={}), httpx2.Response(503))
    with pytest.raises(ModelError):
        await events_of(server.adapter().stream(BODY))

    assert len(server.sent) == 1


@pytest.mark.parametrize("failure", [httpx2.ConnectError("no route"), httpx2.ReadTimeout("late")])
async def test_a_broken_connection_is_retryable(failure: Exception) -> None:
    error = await error_of(failure)

    assert error.retryable
    assert LABEL in str(error)


async def test_text_that_is_no_json_is_a_retryable_error() -> None:
    error = await error_of(httpx2.Response(200, content=b"data: {oops\n\n"))

    assert error.retryable


@pytest.mark.parametrize(
    "event", [1, "error", [], [1], {"candidates": [1]}, {"candidates": [{"content": "x"}]}, [OK]]
)
async def test_what_is_no_event_of_this_api_is_an_error_of_ours(event: object) -> None:
    error = await error_of(httpx2.Response(200, content=sse(event)))

    assert "no event of this API" in str(error)


async def test_events_may_be_cut_anywhere() -> None:
    data = sse(said({"text": "é\u2028x"}, finish=None), said({"text": "y"}))

    async def pieces(size: int) -> Any:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    for size in (1, 2, 3, 7, 64):
        server = FakeServer().reply("stream", httpx2.Response(200, content=pieces(size)))
        turn = fold(await events_of(server.adapter().stream(BODY)))
        assert turn.message.text == "é\u2028xy"


async def test_closing_the_stream_closes_the_response() -> None:
    closed = asyncio.Event()

    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield sse(said({"text": "a"}, finish=None))
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            closed.set()

    server = FakeServer().reply("stream", httpx2.Response(200, stream=Endless()))
    stream = server.adapter().stream(BODY)
    while not isinstance(await anext(stream), TextDelta):
        pass
    await stream.aclose()

    assert closed.is_set()


async def test_events_end_with_usage_and_the_end() -> None:
    server = FakeServer()
    events = await events_of(server.adapter().stream(BODY))

    assert isinstance(events[-2], UsageEvent)
    assert events[-1] == ModelEnd("stop")


async def test_an_event_without_a_response_id_still_gives_calls_different_ids() -> None:
    event = said({"functionCall": {"name": "add"}}, {"functionCall": {"name": "add"}})
    del event["responseId"]

    first, second = (await turn_of(event)).message.calls, (await turn_of(event)).message.calls

    assert len({call.id for call in (*first, *second)}) == 4


def test_a_client_that_would_send_through_aiohttp_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(vertexai=False, api_key="k")
    monkeypatch.setattr(client._api_client, "_use_aiohttp", lambda: True)

    with pytest.raises(ConfigurationError, match="httpx_async_client"):
        GeminiAdapter(MODEL, client=client)
    client.close()


async def test_a_missing_key_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY"):
        await events_of(GeminiAdapter(MODEL).stream(BODY))


async def test_a_client_of_its_own_never_uses_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    monkeypatch.setattr("google.genai._api_client.has_aiohttp", True)

    client: Any = GeminiAdapter(MODEL)._transport._open()

    assert not client._api_client._use_aiohttp()
    client.close()


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="exclude"):
        GeminiOptions(thinking_level="low", thinking_budget=1)
    with pytest.raises(ConfigurationError, match="thinking_budget"):
        GeminiOptions(thinking_budget=-2)
    with pytest.raises(ConfigurationError, match="name"):
        GeminiAdapter("")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON, st.sampled_from([None, 1]), st.booleans())
def test_a_raw_value_is_the_text_of_the_value(
    value: Any, indent: int | None, is_ascii: bool
) -> None:
    holder = {"a": [0, {"args": value}], "b": '{"args":1}'}
    text = json.dumps(holder, indent=indent, ensure_ascii=is_ascii)

    raw = raw_value(text, ("a", 1, "args"))

    assert raw is not None
    assert raw in text
    assert json.loads(raw) == value
    assert raw_value(text, ("a", 1, "none")) is None
    assert raw_value(text, ("a", 2)) is None
    assert raw_value(text, ("b", "args")) is None


def test_of_equal_keys_the_last_counts() -> None:
    assert raw_value('{"a":1 , "a":2.0}', ("a",)) == "2.0"


def test_vendor_items_name_the_model() -> None:
    async def items() -> list[VendorItem]:
        turn = await turn_of(said({"text": "a", "thoughtSignature": "cw=="}))
        return [block for block in turn.message.blocks if isinstance(block, VendorItem)]

    assert asyncio.run(items()) == [VendorItem(source=LABEL, data='{"thoughtSignature":"cw=="}')]
    assert VendorItemEvent(source=LABEL, data="{}").kind == "vendor_item"


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _merged(parts: list[dict[str, str]]) -> list[dict[str, str]]:
    """Parts with neighbouring unsigned texts as one: how a stream is cut is no matter."""
    found: list[dict[str, str]] = []
    for part in parts:
        if found and "thoughtSignature" not in part and "thoughtSignature" not in found[-1]:
            found[-1] = {"text": found[-1]["text"] + part["text"]}
        else:
            found.append(part)
    return found
