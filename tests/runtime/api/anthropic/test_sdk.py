"""The compatibility suite of Anthropic's SDK: each request, in each way that the SDK has to ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import Message

from tests.runtime.api.anthropic.cases import CASES, Case
from tests.runtime.api.anthropic.strictly import a_message, an_event
from tests.runtime.api.serving import Served
from tests.runtime.service.scripted import BOUND_S


@dataclass(frozen=True)
class Clients:
    """The SDK's two clients, and a loop for the one that needs it."""

    url: str
    sync: anthropic.Anthropic
    asynchronous: anthropic.AsyncAnthropic
    runner: asyncio.Runner


@pytest.fixture(scope="module")
def clients(served: Served, client: anthropic.Anthropic) -> Iterator[Clients]:
    with asyncio.Runner() as runner:
        made = anthropic.AsyncAnthropic(base_url=served.url, api_key="none", max_retries=0)
        yield Clients(served.url, client, made, runner)
        runner.run(made.close())


def whole(clients: Clients, request: dict[str, Any]) -> Message:
    raw = clients.sync.messages.with_raw_response.create(**request)
    assert raw.headers["request-id"].startswith("req_")
    a_message(raw.http_response.json())
    message = raw.parse()
    assert isinstance(message, Message)
    return message


def whole_async(clients: Clients, request: dict[str, Any]) -> Message:
    message = clients.runner.run(clients.asynchronous.messages.create(**request))
    assert isinstance(message, Message)
    assert message._request_id is not None
    return message


def streamed(clients: Clients, request: dict[str, Any]) -> Message:
    with clients.sync.messages.stream(**request) as stream:
        texts = [event.text for event in stream if event.type == "text"]
        return told(texts, stream.get_final_message())


def streamed_async(clients: Clients, request: dict[str, Any]) -> Message:
    async def ask() -> Message:
        async with clients.asynchronous.messages.stream(**request) as stream:
            texts = [text async for text in stream.text_stream]
            return told(texts, await stream.get_final_message())

    return clients.runner.run(ask())


def told(texts: list[str], message: Message) -> Message:
    said = [block.text for block in message.content if block.type == "text"]
    assert "".join(texts) == "".join(said)
    return message


def on_the_wire(clients: Clients, request: dict[str, Any]) -> Message:
    """Every event strictly by the SDK's types, under its own name; put together by hand."""
    document: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for name, data in wire_events(clients.url, request):
        assert name == data["type"]
        an_event(data)
        fold(document, inputs, data)
    for index, written in inputs.items():
        document["content"][index]["input"] = json.loads(written)
    return a_message(document)


def wire_events(url: str, request: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    body = {**request, **request.pop("extra_body", {}), "stream": True}
    answer = httpx2.post(f"{url}/v1/messages", json=body, timeout=BOUND_S)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["request-id"].startswith("req_")
    events = []
    for block in answer.text.strip().split("\n\n"):
        first, second = block.split("\n")
        events.append((first.removeprefix("event: "), json.loads(second.removeprefix("data: "))))
    return events


def fold(document: dict[str, Any], inputs: dict[int, str], data: dict[str, Any]) -> None:
    match data["type"]:
        case "message_start":
            document.update(data["message"])
        case "content_block_start":
            assert data["index"] == len(document["content"])
            document["content"].append(data["content_block"])
        case "content_block_delta":
            block = document["content"][data["index"]]
            match data["delta"]:
                case {"type": "text_delta", "text": more}:
                    block["text"] += more
                case {"type": "input_json_delta", "partial_json": more}:
                    inputs[data["index"]] = inputs.get(data["index"], "") + more
        case "message_delta":
            document.update(data["delta"])
            document["usage"].update(data["usage"])


WAYS: dict[str, Callable[[Clients, dict[str, Any]], Message]] = {
    "whole": whole,
    "whole async": whole_async,
    "streamed": streamed,
    "streamed async": streamed_async,
    "on the wire": on_the_wire,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("way", WAYS)
def test_each_request_in_each_way_has_the_same_answer(
    way: str, case: Case, clients: Clients
) -> None:
    message = WAYS[way](clients, case.request())

    assert said(message) == case.says
    assert message.stop_reason == case.stop_reason
    assert message.stop_sequence == case.stop_sequence
    assert (message.role, message.model) == ("assistant", "scripted")
    check_usage(message)


def said(message: Message) -> list[Any]:
    return [
        block.text if block.type == "text" else (block.name, block.input)  # type: ignore[union-attr]
        for block in message.content
    ]


def check_usage(message: Message) -> None:
    usage = message.usage
    created = usage.cache_creation
    assert created is not None
    assert usage.cache_creation_input_tokens == (
        created.ephemeral_5m_input_tokens + created.ephemeral_1h_input_tokens
    )
    assert min(usage.input_tokens, usage.cache_creation_input_tokens) >= 0
    assert usage.output_tokens > 0
