"""Gemini through Google's own client: the implicit cache, and cached contents."""

from __future__ import annotations

import datetime as dt
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider

MODEL = "gemini-3.8-flash"
RULES = "Follow the rules. " * 1_200
LOOK = types.FunctionDeclaration(
    name="look",
    parameters_json_schema={
        "type": "object",
        "properties": {"z": {"type": "string"}},
        "required": ["z"],
    },
)
TOOLS: list[Any] = [types.Tool(function_declarations=[LOOK])]


def config(**changes: Any) -> types.GenerateContentConfig:
    automatic = types.AutomaticFunctionCallingConfig(disable=True)
    values = {"system_instruction": RULES, "tools": TOOLS, **changes}
    return types.GenerateContentConfig(automatic_function_calling=automatic, **values)


def cached(response: types.GenerateContentResponse) -> int | None:
    assert response.usage_metadata is not None
    return response.usage_metadata.cached_content_token_count


async def test_each_turn_of_a_conversation_reads_the_turns_before(
    gemini: genai.Client, fake: FakeProvider
) -> None:
    contents: list[Any] = []
    for turn in range(4):
        text = f'/think hm\n/call look {{"z": "{turn}"}}'
        contents.append(types.Content(role="user", parts=[types.Part(text=text)]))
        reply = await gemini.aio.models.generate_content(
            model=MODEL, contents=contents, config=config()
        )
        assert reply.candidates
        assert reply.function_calls
        contents.append(reply.candidates[0].content)
        result = types.Part.from_function_response(name="look", response={"output": "found"})
        contents.append(types.Content(role="user", parts=[result]))
    served = [each for each in fake.served if isinstance(each, Served)]
    assert served[0].read == 0
    assert [each.read for each in served[1:]] == [each.split.total for each in served[:-1]]


async def test_a_count_of_zero_is_left_out(gemini: genai.Client) -> None:
    reply = await gemini.aio.models.generate_content(model=MODEL, contents="x", config=config())
    assert cached(reply) is None
    reply = await gemini.aio.models.generate_content(model=MODEL, contents="x", config=config())
    assert cached(reply)


async def test_a_stream_ends_with_the_whole_usage(gemini: genai.Client) -> None:
    text = '/think hm hm\n/say one two three four five\n/call look {"z": "ü"}'
    said, thought, calls = "", "", []
    stream = await gemini.aio.models.generate_content_stream(
        model=MODEL, contents=text, config=config()
    )
    async for chunk in stream:
        assert chunk.candidates
        assert chunk.candidates[0].content
        for part in chunk.candidates[0].content.parts or ():
            if part.function_call is not None:
                calls.append(part.function_call.args)
            elif part.thought:
                thought += part.text or ""
            else:
                said += part.text or ""
    assert (said, thought, calls) == ("one two three four five", "hm hm", [{"z": "ü"}])
    usage = chunk.usage_metadata
    assert usage is not None
    assert usage.thoughts_token_count
    assert usage.total_token_count == (
        (usage.prompt_token_count or 0)
        + (usage.candidates_token_count or 0)
        + usage.thoughts_token_count
    )
    assert chunk.candidates[0].finish_reason == types.FinishReason.STOP


async def test_cached_content_is_created_read_updated_and_deleted(
    gemini: genai.Client, fake: FakeProvider, time: VirtualTime
) -> None:
    front = types.CreateCachedContentConfig(
        system_instruction=RULES, tools=TOOLS, ttl="300s", display_name="front"
    )
    made = await gemini.aio.caches.create(model=MODEL, config=front)
    assert made.name
    assert made.usage_metadata is not None
    size = made.usage_metadata.total_token_count
    use = types.GenerateContentConfig(cached_content=made.name)
    reply = await gemini.aio.models.generate_content(model=MODEL, contents="x", config=use)
    assert cached(reply) == size
    assert reply.usage_metadata is not None
    assert (reply.usage_metadata.prompt_token_count or 0) > (size or 0)

    longer = await gemini.aio.caches.update(
        name=made.name, config=types.UpdateCachedContentConfig(ttl="600s")
    )
    assert longer.expire_time == time.now() + dt.timedelta(seconds=600)
    assert [each.name async for each in await gemini.aio.caches.list()] == [made.name]
    assert (await gemini.aio.caches.get(name=made.name)).display_name == "front"

    await time.advance(540)
    await gemini.aio.caches.delete(name=made.name)
    with pytest.raises(errors.ClientError) as caught:
        await gemini.aio.models.generate_content(model=MODEL, contents="x", config=use)
    assert caught.value.code == 404
    assert [each async for each in await gemini.aio.caches.list()] == []
    assert float(fake.ledger()["contents_cost"]) > 0


async def test_cached_content_dies_with_its_ttl_and_belongs_to_its_key(
    gemini: genai.Client, http: httpx2.AsyncClient, time: VirtualTime
) -> None:
    front = types.CreateCachedContentConfig(system_instruction=RULES, ttl="300s")
    made = await gemini.aio.caches.create(model=MODEL, config=front)
    url, key = f"/v1beta/{made.name}", {"x-goog-api-key": "key"}
    assert (await http.get(url, headers=key)).status_code == 200
    assert (await http.get(url, headers={"x-goog-api-key": "other"})).status_code == 404
    await time.advance(301)
    assert (await http.get(url, headers=key)).status_code == 404


async def test_the_model_sees_the_tools_of_a_cached_front(gemini: genai.Client) -> None:
    front = types.CreateCachedContentConfig(system_instruction=RULES, tools=TOOLS)
    made = await gemini.aio.caches.create(model=MODEL, config=front)
    use = types.GenerateContentConfig(cached_content=made.name)
    text = '/call look {"z": "x"}'
    reply = await gemini.aio.models.generate_content(model=MODEL, contents=text, config=use)
    assert reply.function_calls
    assert reply.function_calls[0].args == {"z": "x"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"systemInstruction": {"parts": [{"text": RULES}]}, "contents": []}, "leave"),
        ({}, "needs contents"),
        ({"systemInstruction": {"parts": [{"text": "short"}]}}, "the minimum is"),
        ({"systemInstruction": {"parts": [{"text": RULES}]}, "ttl": "soon"}, "300s"),
    ],
)
async def test_fronts_that_cannot_be_cached_are_refused(
    http: httpx2.AsyncClient, body: dict[str, Any], says: str
) -> None:
    response = await http.post(
        "/v1beta/cachedContents?key=key", json={"model": f"models/{MODEL}", **body}
    )
    error = response.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert says in error["message"]


async def test_tools_beside_a_cached_front_are_refused(gemini: genai.Client) -> None:
    front = types.CreateCachedContentConfig(system_instruction=RULES)
    made = await gemini.aio.caches.create(model=MODEL, config=front)
    with pytest.raises(errors.ClientError, match="leave them out"):
        await gemini.aio.models.generate_content(
            model=MODEL, contents="x", config=config(cached_content=made.name)
        )


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ([], "not specified"),
        ([{"role": "robot", "parts": [{"text": "x"}]}], "valid role"),
        ([{"role": "user", "parts": []}], "must not be empty"),
        (
            [
                {"role": "user", "parts": [{"text": "x"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
                {"role": "user", "parts": [{"text": "y"}]},
            ],
            "number of function response parts",
        ),
    ],
)
async def test_conversations_that_the_api_refuses_are_refused(
    http: httpx2.AsyncClient, contents: Any, says: str
) -> None:
    url = f"/v1beta/models/{MODEL}:generateContent?key=key"
    response = await http.post(url, json={"contents": contents})
    assert response.status_code == 400
    assert says in response.json()["error"]["message"]


async def test_failures_raise_the_client_s_own_errors_with_the_time_to_wait(
    gemini: genai.Client,
) -> None:
    with pytest.raises(errors.ClientError) as caught:
        await gemini.aio.models.generate_content(model=MODEL, contents="/fail 429 9")
    assert caught.value.status == "RESOURCE_EXHAUSTED"
    assert caught.value.details["error"]["details"][0]["retryDelay"] == "9s"


async def test_counting_tokens_agrees_with_the_usage(gemini: genai.Client) -> None:
    counted = await gemini.aio.models.count_tokens(model=MODEL, contents="how long is this?")
    reply = await gemini.aio.models.generate_content(model=MODEL, contents="how long is this?")
    assert reply.usage_metadata is not None
    assert counted.total_tokens == reply.usage_metadata.prompt_token_count
