"""What leaves the machine, through the official client, and what comes back."""

from __future__ import annotations

import asyncio
import json
import warnings

import httpx
import pytest
import respx

from agentkit.caching.plan.plan import Hints
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import ModelEnd, TextDelta, UsageEvent
from agentkit.folding import fold
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    MISTRAL,
    OPENAI,
    OPENROUTER,
    VLLM,
    CacheUnreportedWarning,
    Profile,
)
from tests.agentkit.models.hosted.openai_chat.talk import (
    COUNTED,
    SAID,
    URL,
    adapter,
    chunk,
    collect,
    plan,
    refused,
    sse,
    turns,
    usage_chunk,
)


@pytest.mark.parametrize("profile", [OPENAI, DEEPSEEK, OPENROUTER, VLLM], ids=lambda p: p.provider)
async def test_the_client_sends_exactly_the_bytes_of_the_body(
    httpx2_mock: respx.Router, profile: Profile
) -> None:
    route = httpx2_mock.post(URL).mock(return_value=sse(*SAID, COUNTED))
    api, made = adapter(profile), turns()[2]
    finished = api.body(
        api.layout(made), plan(2, 6, cache_key="k") if profile.mark else plan(), made
    )

    events = await collect(api, finished)

    assert route.call_count == 1
    sent = route.calls.last.request
    assert sent.content == finished.data
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["authorization"] == "Bearer sk-test"
    assert TextDelta("Hi") in events
    assert isinstance(events[-2], UsageEvent)
    assert events[-1] == ModelEnd("stop")
    assert fold(events).usage.cache_read_tokens == 4


async def test_headers_of_the_plan_are_sent(httpx2_mock: respx.Router) -> None:
    route = httpx2_mock.post(URL).mock(return_value=sse(*SAID))
    api, made = adapter(VLLM), turns()[0]
    planned = plan(hints=Hints(headers={"X-Session-ID": "s"}))

    await collect(api, api.body(api.layout(made), planned, made))

    assert route.calls.last.request.headers["x-session-id"] == "s"


async def test_a_server_that_does_not_report_is_named_with_its_flag(
    httpx2_mock: respx.Router,
) -> None:
    silent = usage_chunk(prompt_tokens=9, completion_tokens=1)
    httpx2_mock.post(URL).mock(return_value=sse(*SAID, silent))
    api, made = adapter(VLLM), turns()[0]
    finished = api.body(api.layout(made), plan(), made)

    events = await collect(api, finished)
    note = next(e.cache_note for e in events if isinstance(e, UsageEvent) and e.cache_note)
    assert "--enable-prompt-tokens-details" in note
    assert fold(events).usage.cache_read_tokens is None
    with pytest.warns(CacheUnreportedWarning, match="--enable-prompt-tokens-details"):
        await collect(api, finished)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await collect(api, finished)


async def test_a_server_that_has_reported_once_may_be_silent_about_a_miss(
    httpx2_mock: respx.Router,
) -> None:
    silent = usage_chunk(prompt_tokens=9)
    answers = [sse(*SAID, silent), sse(*SAID, COUNTED), *(sse(*SAID, silent) for _ in range(3))]
    httpx2_mock.post(URL).mock(side_effect=answers)
    api, made = adapter(VLLM), turns()[0]
    for _ in range(5):
        events = await collect(api, api.body(api.layout(made), plan(), made))

    assert all(e.cache_note is None for e in events if isinstance(e, UsageEvent))


@pytest.mark.parametrize(
    ("response", "retryable", "after"),
    [
        (
            httpx.Response(429, headers={"retry-after": "3"}, json={"error": {"message": "x"}}),
            True,
            3,
        ),
        (httpx.Response(500, json={"error": {"message": "x"}}), True, None),
        (refused("no quota", 429, code="insufficient_quota"), False, None),
        (refused("bad key", 401), False, None),
    ],
)
async def test_errors_say_whether_to_ask_again_and_when(
    httpx2_mock: respx.Router, response: httpx.Response, retryable: bool, after: float | None
) -> None:
    route = httpx2_mock.post(URL).mock(return_value=response)
    api, made = adapter(MISTRAL), turns()[0]

    with pytest.raises(ModelError, match="mistral:mistral-large-4") as caught:
        await collect(api, api.body(api.layout(made), plan(), made))

    assert (caught.value.retryable, caught.value.retry_after_s) == (retryable, after)
    assert route.call_count == 1  # the client does not retry behind our back


async def test_an_error_in_the_middle_of_a_stream_is_not_sent_again(
    httpx2_mock: respx.Router,
) -> None:
    broken = {"error": {"message": "unknown field prompt_cache_key", "code": "invalid_request"}}
    route = httpx2_mock.post(URL).mock(return_value=sse(chunk({"content": "Hi"}), broken))
    api, made = adapter(), turns()[0]

    with pytest.raises(ModelError, match="unknown field"):
        await collect(api, api.body(api.layout(made), plan(cache_key="k"), made))

    assert route.call_count == 1


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [(502, ModelError, True), (429, ModelError, True), (400, RequestRefused, False)],
)
async def test_a_status_in_the_middle_of_a_stream_is_read_like_one_at_its_start(
    httpx2_mock: respx.Router, code: int, kind: type[ModelError], retryable: bool
) -> None:
    broken = {"error": {"message": "upstream", "code": code}}
    httpx2_mock.post(URL).mock(return_value=sse(chunk({"content": "Hi"}), broken))
    api, made = adapter(OPENROUTER), turns()[0]

    with pytest.raises(ModelError, match="upstream") as caught:
        await collect(api, api.body(api.layout(made), plan(), made))

    assert type(caught.value) is kind
    assert caught.value.retryable is retryable


async def test_leaving_early_closes_the_connection(httpx2_mock: respx.Router) -> None:
    closed = []

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            yield b"data: " + json.dumps(chunk({"content": "Hi"})).encode() + b"\n\n"
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            closed.append(True)

    httpx2_mock.post(URL).mock(return_value=httpx.Response(200, stream=Slow()))
    api, made = adapter(), turns()[0]
    stream = api.stream(api.body(api.layout(made), plan(), made))

    assert await anext(stream) == TextDelta("Hi")
    await stream.aclose()

    assert closed


async def test_nothing_is_sent_to_keep_an_entry_alive() -> None:
    api, made = adapter(), turns()[0]

    assert await api.touch(api.body(api.layout(made), plan(), made)) is None
