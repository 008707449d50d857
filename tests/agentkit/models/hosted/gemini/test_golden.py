"""The wire files, through the official client."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from google.genai import types

from agentkit.models.hosted.gemini import GeminiAdapter
from tests.agentkit.models.hosted.gemini.talk import MODEL, FakeServer, events_of, plan
from tests.golden.wire.gemini.make import FOLDER, OBJECT, OPTIONS, REQUESTS, bodies, with_object

VOLATILE = re.compile(rb',\{"role":"user","parts":\[\{"text":"It is ')


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_official_client_sends_the_golden_bytes(name: str) -> None:
    server, made = FakeServer(), REQUESTS[name]
    api = server.adapter(options=OPTIONS)
    layout = api.layout(made)

    await events_of(api.stream(api.body(layout, plan(layout), made)))

    assert server.sent[0].content == (FOLDER / f"{name}.json").read_bytes()


def test_each_golden_request_extends_the_one_before_in_cache_order() -> None:
    prompts = [stable((FOLDER / f"{name}.json").read_bytes()) for name in REQUESTS]

    for before, after in itertools.pairwise(prompts[:3]):
        assert after.startswith(before)
        assert len(after) > len(before)
    assert prompts[3] == prompts[2]


def test_an_object_and_the_rest_are_together_the_whole_request() -> None:
    full = json.loads((FOLDER / "3_other_volatile_text_and_a_pdf.json").read_bytes())
    front = json.loads((FOLDER / f"{OBJECT}.create.json").read_bytes())
    rest = json.loads((FOLDER / f"{OBJECT}.json").read_bytes())

    assert rest.pop("cachedContent") == "cachedContents/1"
    assert {**front, **rest} == full
    assert not front.keys() & rest.keys()


def test_the_golden_files_are_what_is_sent_today() -> None:
    for file, data in bodies():
        assert data == (FOLDER / file).read_bytes(), f"{file}: see make.py"


def test_the_full_prompt_of_a_request_with_an_object_is_that_without_one() -> None:
    body = with_object(GeminiAdapter(MODEL, options=OPTIONS))

    assert body.data == (FOLDER / "3_other_volatile_text_and_a_pdf.json").read_bytes()


def stable(data: bytes) -> bytes:
    """The prompt, which comes first, up to its end or the volatile text."""
    prompt = data[: data.index(b'],"toolConfig"' if b'"toolConfig"' in data else b'],"gener')]
    volatile = VOLATILE.search(prompt)
    return prompt[: volatile.start()] if volatile else prompt


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_clients_own_methods_send_the_same_values(name: str) -> None:
    """Fields, spellings and nesting are those that the official client writes for its objects."""
    golden = json.loads((FOLDER / f"{name}.json").read_bytes())
    config = golden["generationConfig"]
    server = FakeServer()

    stream = await server.client().aio.models.generate_content_stream(
        model=MODEL,
        contents=[types.Content.model_validate(content) for content in golden["contents"]],
        config=types.GenerateContentConfig(
            system_instruction=types.Content.model_validate(golden["systemInstruction"]),
            tools=[types.Tool.model_validate(tool) for tool in golden["tools"]],
            tool_config=types.ToolConfig.model_validate(golden.get("toolConfig") or {}),
            max_output_tokens=config["maxOutputTokens"],
            thinking_config=types.ThinkingConfig.model_validate(config["thinkingConfig"]),
        ),
    )
    async for _ in stream:
        pass

    sent = camel(json.loads(server.sent[0].content))
    assert sent["systemInstruction"].pop("role", "user") == "user"
    assert {key: value for key, value in sent.items() if value} == golden


async def test_the_clients_own_method_creates_the_same_object() -> None:
    golden = json.loads((FOLDER / f"{OBJECT}.create.json").read_bytes())
    server = FakeServer()
    api = server.adapter(options=OPTIONS)
    front = with_object(api).front
    assert front is not None

    await api._transport.create(front)
    await server.client().aio.caches.create(
        model=MODEL,
        config=types.CreateCachedContentConfig(
            ttl=f"{front.ttl_s}s",
            display_name=f"agentkit {front.key.digest[:12]}",
            system_instruction=types.Content.model_validate(golden["systemInstruction"]),
            tools=[types.Tool.model_validate(tool) for tool in golden["tools"]],
        ),
    )

    ours, theirs = camel(server.bodies("create"))
    assert theirs["systemInstruction"].pop("role", "user") == "user"
    assert ours == theirs
    assert server.sent[0].url == server.sent[1].url


def camel(value: Any) -> Any:
    """The API takes both spellings of a field; the client writes now the one, now the other."""
    if isinstance(value, list):
        return [camel(member) for member in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("_(.)", lambda m: m[1].upper(), key): camel(value[key]) for key in value}
