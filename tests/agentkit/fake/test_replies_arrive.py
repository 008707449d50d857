"""What the fake model says reaches the official clients to the last character, either way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI

from agentkit.caching.simulate import Served
from agentkit.fake import Call, FakeProvider, Reply

Heard = tuple[str, list[tuple[str, Any]]]
"""Text, and calls with the value of their arguments."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ARGUMENTS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5),
    st.recursive(
        TEXT | st.integers(-1000, 1000) | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=4,
    ),
    max_size=3,
)
CALLS = st.lists(ARGUMENTS.map(lambda value: Call("look", json.dumps(value))), max_size=3)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


async def messages(http: httpx2.AsyncClient, stream: bool) -> Heard:
    client = AsyncAnthropic(api_key="k", base_url="http://fake", max_retries=0, http_client=http)
    request: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 4_000,
        "tools": [{"name": "look", "input_schema": SCHEMA}],
        "messages": [{"role": "user", "content": "x"}],
    }
    if stream:
        async with client.messages.stream(**request) as events:
            content: Any = (await events.get_final_message()).content
    else:
        content = (await client.messages.create(**request)).content
    calls = [(block.name, block.input) for block in content if block.type == "tool_use"]
    return "".join(block.text for block in content if block.type == "text"), calls


async def responses(http: httpx2.AsyncClient, stream: bool) -> Heard:
    client = AsyncOpenAI(api_key="k", base_url="http://fake/v1", max_retries=0, http_client=http)
    request: dict[str, Any] = {
        "model": "gpt-6-sol",
        "input": "x",
        "tools": [{"type": "function", "name": "look", "strict": False, "parameters": SCHEMA}],
    }
    if stream:
        async with client.responses.stream(**request) as events:
            response: Any = await events.get_final_response()
    else:
        response = await client.responses.create(**request)
    calls = [
        (item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    return response.output_text, calls


async def chat(http: httpx2.AsyncClient, stream: bool) -> Heard:
    client = AsyncOpenAI(api_key="k", base_url="http://fake/v1", max_retries=0, http_client=http)
    request: dict[str, Any] = {
        "model": "gpt-6-sol",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
    }
    if stream:
        async with client.chat.completions.stream(**request) as events:
            completion: Any = await events.get_final_completion()
    else:
        completion = await client.chat.completions.create(**request)
    message = completion.choices[0].message
    calls = [
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or ()
    ]
    return message.content or "", calls


async def gemini(http: httpx2.AsyncClient, stream: bool) -> Heard:
    options = types.HttpOptions(base_url="http://fake", httpx_async_client=http)
    models = genai.Client(api_key="k", http_options=options).aio.models
    look = types.FunctionDeclaration(name="look", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[look])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    request: dict[str, Any] = {"model": "gemini-3.8-flash", "contents": "x", "config": config}
    if stream:
        chunks = [chunk async for chunk in await models.generate_content_stream(**request)]
    else:
        chunks = [await models.generate_content(**request)]
    parts = [
        part
        for chunk in chunks
        if chunk.candidates and chunk.candidates[0].content
        for part in chunk.candidates[0].content.parts or ()
    ]
    calls = [(p.function_call.name or "", p.function_call.args) for p in parts if p.function_call]
    return "".join(part.text or "" for part in parts if not part.thought), calls


@pytest.mark.parametrize("hear", [messages, responses, chat, gemini])
@settings(max_examples=12, deadline=None)
@given(text=TEXT, thinking=TEXT, calls=CALLS)
def test_a_reply_arrives_as_it_was_said(
    hear: Callable[[httpx2.AsyncClient, bool], Awaitable[Heard]],
    text: str,
    thinking: str,
    calls: list[Call],
) -> None:
    fake = FakeProvider(respond=lambda _: Reply(text=text, thinking=thinking, calls=tuple(calls)))

    async def both() -> list[Heard]:
        async with httpx2.AsyncClient(transport=fake.transport()) as http:
            return [await hear(http, False), await hear(http, True)]

    said = (text, [(call.name, json.loads(call.arguments)) for call in calls])
    assert asyncio.run(both()) == [said, said]
    outputs = {each.output_tokens for each in fake.served if isinstance(each, Served)}
    assert len(fake.served) == 2
    assert len(outputs) == 1
