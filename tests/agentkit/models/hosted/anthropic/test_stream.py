"""Answers of the API as events, over the official SDK. Nothing reaches a network."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest
import respx

from agentkit.blocks import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    VendorItem,
)
from agentkit.errors import MissingExtra, ModelError, RequestRefused
from agentkit.events import ModelEnd, TextDelta, UsageEvent
from agentkit.folding import fold
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.wire import Adapter, Body
from agentkit.usage import Usage
from tests.agentkit.models.hosted.anthropic.support import (
    LABEL,
    URL,
    answer,
    ask,
    block,
    call_block,
    call_turn,
    collect,
    message_end,
    message_start,
    on_wire,
    plan,
    question,
    sse,
    streamed,
    text_block,
    thinking_block,
)

Make = Callable[..., AnthropicAdapter]


def replies(router: respx.Router, *responses: httpx.Response | Exception) -> respx.Route:
    return router.post(URL).mock(side_effect=list(responses))


def test_the_adapter_is_one(make_adapter: Make) -> None:
    adapter: Adapter[Any] = make_adapter()
    assert (adapter.label, adapter.provider, adapter.model) == (
        LABEL,
        "anthropic",
        "claude-sonnet-5-5",
    )


async def test_the_bytes_on_the_wire_are_those_of_the_body(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    route = replies(httpx2_mock, streamed(answer(text_block(0, "ok"))))
    adapter = make_adapter(options=AnthropicOptions(betas=("z-beta", "a-beta")))
    odd = ToolCall(id="c1", name="search", arguments='{ "query" :\n "ü"  }')
    request = ask(question("Zürich 🚢").append(*call_turn(odd)))
    body = adapter.body(adapter.layout(request), plan(0, 3), request)
    async for _ in adapter.stream(body):
        pass
    seen = route.calls.last.request
    assert seen.content == body.data
    assert b'{ "query" :\n "\xc3\xbc"  }' in seen.content
    assert seen.headers["content-type"] == "application/json"
    assert any("test-key" in value for value in seen.headers.values())
    assert seen.headers["anthropic-version"]
    assert seen.headers["anthropic-beta"] == "a-beta,z-beta"
    assert seen.headers["content-length"] == str(len(body.data))


async def test_an_answer_becomes_a_turn_with_everything_in_its_place(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    events = answer(
        thinking_block(0, "Let me look.", "sig=="),
        block(1, {"type": "redacted_thinking", "data": "xyz"}),
        text_block(2, "I ", "search."),
        call_block(3, "toolu_1", "search", '{"q', 'uery":  "a"}'),
        call_block(4, "toolu_2", "read"),
        stop_reason="tool_use",
    )
    replies(httpx2_mock, streamed(events))
    turn = fold(await collect(make_adapter(), ask(question())))
    assert turn.finish == "tool_calls"
    assert turn.message == AssistantMessage(
        (
            Thinking("Let me look.", "sig==", LABEL),
            VendorItem(source=LABEL, data='{"type":"redacted_thinking","data":"xyz"}'),
            Text("I search."),
            ToolCall(id="toolu_1", name="search", arguments='{"query":  "a"}'),
            ToolCall(id="toolu_2", name="read", arguments="{}"),
        )
    )


async def test_deltas_do_not_replace_what_the_start_said(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    """C73: the start has 900 tokens read, the last delta has the output only, or null for the
    rest: 900 stay."""
    nulls = message_end(input_tokens=100, cache_read_input_tokens=None)
    with_nulls = [message_start(), *text_block(0, "ok"), {"type": "new_kind_of_event"}, *nulls]
    replies(httpx2_mock, streamed(answer(text_block(0, "ok"))), streamed(with_nulls))
    for _ in range(2):
        turn = fold(await collect(make_adapter(), ask(question())))
        assert turn.usage == Usage(
            input_tokens=1030,
            cache_read_tokens=900,
            cache_write_tokens=30,
            cache_write_long_tokens=10,
            output_tokens=7,
        )


async def test_cumulative_counts_of_a_delta_replace_earlier_ones(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    end = message_end(input_tokens=100, cache_read_input_tokens=950, cache_creation_input_tokens=60)
    replies(httpx2_mock, streamed([message_start(), *text_block(0, "ok"), *end]))
    usage = fold(await collect(make_adapter(), ask(question()))).usage
    assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.input_tokens) == (
        950,
        60,
        1110,
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"input_tokens": 5}, Usage(input_tokens=5, output_tokens=7)),
        (
            {"input_tokens": 5, "cache_read_input_tokens": None},
            Usage(input_tokens=5, output_tokens=7),
        ),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 16},
            Usage(input_tokens=21, cache_read_tokens=16, output_tokens=7),
        ),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
            Usage(
                input_tokens=5,
                cache_read_tokens=0,
                cache_write_tokens=0,
                cache_write_long_tokens=0,
                output_tokens=7,
            ),
        ),
    ],
    ids=["absent", "null", "reads only", "zeros"],
)
async def test_what_the_server_does_not_say_is_unknown_and_not_zero(
    make_adapter: Make, httpx2_mock: respx.Router, counts: dict[str, Any], expected: Usage
) -> None:
    replies(httpx2_mock, streamed([message_start(counts), *text_block(0, "ok"), *message_end()]))
    assert fold(await collect(make_adapter(), ask(question()))).usage == expected


async def test_compaction_by_the_server_is_part_of_the_bill(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    def iteration(kind: str, read: int, output: int, long: int, **more: Any) -> dict[str, Any]:
        created = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": long}
        return {
            "type": kind,
            "input_tokens": 10,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": long,
            "cache_creation": created,
            "output_tokens": output,
            **more,
        }

    iterations = [
        iteration("compaction", 100, 50, 0),
        iteration("message", 900, 7, 5),
        iteration("advisor_message", 5000, 500, 0, model="claude-opus-5-5"),
    ]
    end = message_end(iterations=iterations)
    replies(httpx2_mock, streamed([message_start(), *text_block(0, "ok"), *end]))
    usage = fold(await collect(make_adapter(), ask(question()))).usage
    assert usage == Usage(
        input_tokens=1025,
        cache_read_tokens=1000,
        cache_write_tokens=5,
        cache_write_long_tokens=5,
        output_tokens=57,
    )


async def test_usage_is_known_when_the_answer_begins(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    replies(httpx2_mock, streamed(answer(text_block(0, "ok"))))
    events = await collect(make_adapter(), ask(question()))
    first = events[0]
    assert isinstance(first, UsageEvent)
    assert first.usage.cache_read_tokens == 900
    assert events.index(TextDelta("ok")) > 0


async def test_times_are_from_sending_to_the_first_token_and_to_the_end(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    replies(httpx2_mock, streamed(answer(text_block(0, "ok"))))
    ticks: Iterator[float] = iter([10.0, 10.5, 13.0])
    adapter = make_adapter(clock=lambda: next(ticks))
    turn = fold(await collect(adapter, ask(question())))
    assert (turn.timing.ttft_s, turn.timing.total_s) == (0.5, 3.0)


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("something_new", "stop"),
    ],
)
async def test_stop_reasons(
    make_adapter: Make, httpx2_mock: respx.Router, stop_reason: str, finish: str
) -> None:
    replies(httpx2_mock, streamed(answer(text_block(0, "ok"), stop_reason=stop_reason)))
    events = await collect(make_adapter(), ask(question()))
    assert events[-1] == ModelEnd(finish)  # type: ignore[arg-type]


async def test_a_refusal_is_refused_for_good(make_adapter: Make, httpx2_mock: respx.Router) -> None:
    end = message_end("refusal")
    end[0]["delta"]["stop_details"] = {
        "type": "refusal",
        "category": "cyber",
        "explanation": "It could harm.",
    }
    replies(httpx2_mock, streamed([message_start(), *text_block(0, "I"), *end]))
    with pytest.raises(RequestRefused, match=r"refused to answer \(cyber\): It could harm"):
        await collect(make_adapter(), ask(question()))


async def test_a_paused_turn_is_continued_and_is_one_turn(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    query = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    paused = answer(text_block(0, "First."), block(1, search, query), stop_reason="pause_turn")
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    paused[-2]["delta"]["container"] = {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"}
    rest = answer(block(0, found), text_block(1, "Done."))
    route = replies(httpx2_mock, streamed(paused), streamed(rest))
    adapter = make_adapter()
    request = ask(question())
    turn = fold(await collect(adapter, request, 4))

    first, second = (call.request.content for call in route.calls)
    assert on_wire(second)[: len(on_wire(first))] == on_wire(first)
    added = on_wire(second)[len(on_wire(first)) :]
    assert [role for role, _ in added] == ["assistant", "assistant"]
    assert added[1][1].endswith('"input":{"query": "x"}}')
    assert "container" not in json.loads(first)
    assert json.loads(second)["container"] == "container_1"
    assert turn.message.text == "First.Done."
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (2060, 14)

    # What the continuation sent is what the next request sends again.
    following = request.context.append(turn.message).append(question("And?").messages[0])
    body = adapter.body(adapter.layout(ask(following)), plan(), ask(following))
    assert on_wire(body.data)[: len(on_wire(second))] == on_wire(second)


async def test_a_server_that_always_pauses_does_not_hold_us_for_ever(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    route = httpx2_mock.post(URL).mock(
        side_effect=lambda _: streamed(answer(text_block(0, "a"), stop_reason="pause_turn"))
    )
    with pytest.raises(ModelError, match="paused one answer 20 times"):
        await collect(make_adapter(), ask(question()))
    assert route.call_count == 20


async def test_citations_and_separate_texts_are_sent_back_as_they_came(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    citation = {"type": "char_location", "cited_text": "x", "document_index": 0}
    events = answer(
        text_block(0, "One."),
        block(
            1,
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "Two."},
            {"type": "citations_delta", "citation": citation},
        ),
        text_block(2, "Three."),
    )
    replies(httpx2_mock, streamed(events))
    adapter = make_adapter()
    turn = fold(await collect(adapter, ask(question())))
    assert turn.message.text == "One.Two.Three."
    context = question().append(turn.message).append(question("More.").messages[0])
    body = adapter.body(adapter.layout(ask(context)), plan(), ask(context))
    texts = [json.loads(text) for role, text in on_wire(body.data) if role == "assistant"]
    assert texts == [
        {"type": "text", "text": "One."},
        {"type": "text", "text": "Two.", "citations": [citation]},
        {"type": "text", "text": "Three."},
    ]


@pytest.mark.parametrize(
    ("status", "kind", "headers", "retryable", "refused", "wait_s", "text"),
    [
        (429, "rate_limit_error", {"retry-after": "12"}, True, False, 12.0, "slow down"),
        (529, "overloaded_error", {}, True, False, None, "slow down"),
        (500, "api_error", {"retry-after-ms": "250"}, True, False, 0.25, "slow down"),
        (504, "timeout_error", {}, True, False, None, "slow down"),
        (429, "rate_limit_error", {"x-should-retry": "false"}, False, False, None, "slow down"),
        (400, "invalid_request_error", {}, False, True, None, "slow down"),
        (404, "not_found_error", {}, False, True, None, "slow down"),
        (413, "request_too_large", {}, False, True, None, "slow down"),
        (401, "authentication_error", {}, False, False, None, "ANTHROPIC_API_KEY"),
        (403, "permission_error", {}, False, False, None, "ANTHROPIC_API_KEY"),
        (402, "billing_error", {}, False, False, None, "ANTHROPIC_API_KEY"),
    ],
)
async def test_errors_of_the_api(
    make_adapter: Make,
    httpx2_mock: respx.Router,
    status: int,
    kind: str,
    headers: dict[str, str],
    retryable: bool,
    refused: bool,
    wait_s: float | None,
    text: str,
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "slow down"}}
    route = replies(httpx2_mock, httpx.Response(status, json=body, headers=headers))
    with pytest.raises(ModelError, match=text) as caught:
        await collect(make_adapter(), ask(question()))
    assert caught.value.retryable is retryable
    assert caught.value.retry_after_s == wait_s
    assert isinstance(caught.value, RequestRefused) is refused
    assert route.call_count == 1, "retries are the loop's"


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (httpx2.ConnectError("no route"), "cannot be reached"),
        (httpx2.ReadTimeout("slow"), "timed out"),
    ],
)
async def test_a_connection_that_fails_is_worth_another_try(
    make_adapter: Make, httpx2_mock: respx.Router, failure: Exception, text: str
) -> None:
    replies(httpx2_mock, failure)
    with pytest.raises(ModelError, match=text) as caught:
        await collect(make_adapter(), ask(question()))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("kind", "retryable"), [("overloaded_error", True), ("invalid_request_error", False)]
)
async def test_an_error_in_the_middle_of_a_stream(
    make_adapter: Make, httpx2_mock: respx.Router, kind: str, retryable: bool
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "Sorry"}}
    replies(httpx2_mock, streamed([message_start(), *text_block(0, "I"), error]))
    with pytest.raises(ModelError, match="Sorry") as caught:
        await collect(make_adapter(), ask(question()))
    assert caught.value.retryable is retryable


async def test_a_stream_that_is_cut_off_is_worth_another_try(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    cut = [message_start(), *text_block(0, "I th")]
    garbled = httpx.Response(200, content=sse(cut) + b"event: message_delta\ndata: {oops\n\n")
    replies(httpx2_mock, streamed(cut), garbled)
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await collect(make_adapter(), ask(question()))
        assert caught.value.retryable


async def test_without_a_key_the_error_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY") as caught:
        await collect(AnthropicAdapter("claude-sonnet-5-5"), ask(question()))
    assert not caught.value.retryable


async def test_closing_the_stream_ends_the_request(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    replies(httpx2_mock, streamed(answer(text_block(0, "a", "b"))))
    adapter = make_adapter()
    request = ask(question())
    events = adapter.stream(adapter.body(adapter.layout(request), plan(), request))
    await anext(events)
    await events.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_the_reason_for_a_miss_is_passed_on(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    missed = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 812}}
    pending = {"cache_miss_reason": None}
    first = [message_start(id="msg_A", diagnostics=None), *text_block(0, "a"), *message_end()]
    second = [message_start(id="msg_B", diagnostics=missed), *text_block(0, "b"), *message_end()]
    third = [message_start(id="msg_C", diagnostics=pending), *text_block(0, "c"), *message_end()]
    route = replies(httpx2_mock, *map(streamed, (first, second, third)))
    adapter = make_adapter(options=AnthropicOptions(diagnostics=True))
    context = question()
    notes = []
    for _ in range(3):
        events = await collect(adapter, ask(context))
        notes.append([e.cache_note for e in events if isinstance(e, UsageEvent) and e.cache_note])
        context = context.append(fold(events).message).append(question("More").messages[0])
    assert notes == [[], ["tools_changed (about 812 input tokens)"], []]
    asked = [json.loads(call.request.content)["diagnostics"] for call in route.calls]
    assert asked == [{"previous_message_id": name} for name in (None, "msg_A", "msg_B")]


async def test_a_touch_reads_the_same_prefix_and_generates_nothing(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    usage = {
        "input_tokens": 2,
        "cache_read_input_tokens": 500,
        "cache_creation_input_tokens": 0,
        "output_tokens": 0,
    }
    route = replies(
        httpx2_mock, httpx.Response(200, json={"content": [], "id": "msg_t", "usage": usage})
    )
    adapter = make_adapter(options=AnthropicOptions(thinking="adaptive", effort="low"))
    request = ask(question().with_volatile("It is noon."))
    body = adapter.body(adapter.layout(request), plan(2, 5), request)
    event = await adapter.touch(body)
    assert isinstance(event, UsageEvent)
    assert (event.usage.cache_read_tokens, event.usage.input_tokens) == (500, 502)
    touched = route.calls.last.request.content
    settings = json.loads(touched)
    assert settings["max_tokens"] == 0
    assert "stream" not in settings
    assert settings["thinking"] == {"type": "adaptive"}
    assert on_wire(touched) == on_wire(body.data)[:-1], "all but the volatile text"
    assert touched.count(b"cache_control") == 2


@pytest.mark.parametrize(
    ("options", "values", "marks"),
    [
        (AnthropicOptions(thinking=2048), {}, (5,)),
        (AnthropicOptions(), {"tool_choice": "required"}, (5,)),
        (
            AnthropicOptions(),
            {"output_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
            (5,),
        ),
        (AnthropicOptions(), {}, ()),
    ],
    ids=["budget", "forced tool", "output schema", "no marks"],
)
async def test_a_touch_that_the_api_refuses_is_not_sent(
    make_adapter: Make,
    options: AnthropicOptions,
    values: dict[str, Any],
    marks: tuple[int, ...],
) -> None:
    adapter = make_adapter(options=options)
    request = ask(question(), **values)
    body = adapter.body(adapter.layout(request), plan(*marks), request)
    with respx.mock(using="httpcore2", assert_all_called=False) as router:
        route = replies(router, httpx.Response(200, json={}))
        assert await adapter.touch(body) is None
        assert not route.called


async def test_results_for_code_go_to_its_own_sandbox(
    make_adapter: Make, httpx2_mock: respx.Router
) -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    events = answer(
        call_block(0, "c1", "search", "{}", caller=caller),
        call_block(1, "c2", "read", "{}", caller={"type": "direct"}),
        stop_reason="tool_use",
    )
    events[-2]["delta"]["container"] = {"id": "container_1"}
    route = replies(httpx2_mock, streamed(events), streamed(answer(text_block(0, "ok"))))
    adapter = make_adapter()
    turn = fold(await collect(adapter, ask(question())))
    results = tuple(
        ToolResult(call_id=call.id, name=call.name, content="ok") for call in turn.message.calls
    )
    context = question().append(turn.message, ToolMessage(results))
    after = fold(await collect(adapter, ask(context))).message
    body = json.loads(route.calls.last.request.content)
    assert body["container"] == "container_1"
    calls = body["messages"][1]["content"]
    assert [call.get("caller") for call in calls] == [caller, None]
    later = ask(context.append(after).append(question("And?").messages[0]))
    layout = adapter.layout(later)
    assert "container" not in json.loads(adapter.body(layout, plan(), later).data)


async def test_without_the_sdk_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtra, match=r'pip install -c requirements.lock "\.\[anthropic\]"'):
        await collect(AnthropicAdapter("claude-sonnet-5-5"), ask(question()))


async def test_bodies_of_others_are_refused(make_adapter: Make) -> None:
    with pytest.raises(TypeError, match=r"AnthropicAdapter\.body"):
        await make_adapter().touch(Body(data=b"{}"))


def test_each_event_loop_has_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections belong to their loop; `run_sync` makes a new loop for each run."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    with respx.mock(using="httpcore2") as router:
        replies(router, *(streamed(answer(text_block(0, "ok"))) for _ in range(2)))
        adapter = AnthropicAdapter("claude-sonnet-5-5")
        for _ in range(2):
            turn = fold(asyncio.run(collect(adapter, ask(question()))))
            assert turn.message.text == "ok"
            assert not len(adapter._sender._clients), "closed with its loop"
