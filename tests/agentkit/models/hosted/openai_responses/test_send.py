"""What leaves the machine, through the official client, and what comes back."""

from __future__ import annotations

import json

import respx
from openai import AsyncOpenAI

from agentkit.events import ModelEnd, TextDelta, UsageEvent
from agentkit.folding import fold
from tests.agentkit.models.hosted.openai_responses.talk import (
    URL,
    adapter,
    collect,
    completed,
    created,
    plan,
    sse,
    text,
    turns,
)


async def test_the_client_sends_exactly_the_bytes_of_the_body(httpx2_mock: respx.Router) -> None:
    route = httpx2_mock.post(URL).mock(return_value=sse(created(), text("Hi"), completed()))
    api, made = adapter(), turns()[2]
    finished = api.body(api.layout(made), plan(2, 6, cache_key="k"), made)

    events = await collect(api, finished)

    assert route.call_count == 1
    assert route.calls.last.request.content == finished.data
    assert route.calls.last.request.headers["content-type"] == "application/json"
    assert route.calls.last.request.headers["authorization"] == "Bearer sk-test"
    assert TextDelta("Hi") in events
    assert isinstance(events[-2], UsageEvent)
    assert events[-1] == ModelEnd("stop")
    assert fold(events).message.text == "Hi"


async def test_the_request_is_the_one_that_the_clients_own_method_makes(
    httpx2_mock: respx.Router,
) -> None:
    httpx2_mock.post(URL).mock(return_value=sse(created(), text("Hi"), completed()))
    api, made = adapter(), turns()[2]
    finished = api.body(api.layout(made), plan(2, 6, cache_key="k"), made)

    await collect(api, finished)
    client = AsyncOpenAI(api_key="sk-test", max_retries=0)
    async for _ in await client.responses.create(**json.loads(finished.data)):
        pass

    ours, theirs = (call.request for call in httpx2_mock.calls)
    assert json.loads(ours.content) == json.loads(theirs.content)
    assert {**ours.headers, "content-length": ""} == {**theirs.headers, "content-length": ""}
    assert ours.url == theirs.url
