"""A conversation as requests, plans made by hand, and a server's side of it as chunks."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from openai import AsyncOpenAI

from agentkit.blocks import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.plan import CachePlan, PlacedMark
from agentkit.caching.request import OpenAiOptions
from agentkit.context import Context
from agentkit.context.segment import Content
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.openai_chat import OPENAI, ChatAdapter, ChatOptions, Profile
from agentkit.models.hosted.wire import Body
from tests.agentkit.models.hosted.weather import (
    ANSWER,
    FRONT,
    PREDICTION,
    RESULTS,
    request,
)

BASE_URL = "https://chat.test/v1"
URL = f"{BASE_URL}/chat/completions"
MODELS = {
    "openai": "gpt-6-sol",
    "deepseek": "deepseek-flash",
    "openrouter": "anthropic/claude-sonnet-5.5",
    "mistral": "mistral-large-4",
}
"""Where the name matters; `m` elsewhere."""


# Odd spacing and key order on purpose: it is what the model wrote.
ARGUMENTS = '{ "city" : "Zürich",\n "a":1.0 }'
QUESTION = UserMessage.of("How is it in Zürich?")
PICTURE = UserMessage.of("Which city is this?", Image.of_bytes(b"\x89PNG", "image/png"))
FOLLOW_UP = UserMessage.of("And tomorrow?")


def calls(label: str = "openai:gpt-6-sol") -> AssistantMessage:
    """A turn with text, reasoning of the model `label`, and two parallel calls."""
    return AssistantMessage(
        (
            Thinking("I should look.", source=label),
            Text("Looking."),
            ToolCall(id="call_1", name="weather", arguments=ARGUMENTS),
            ToolCall(id="call_2", name="lookup", arguments='{"word":"Föhn"}'),
        )
    )


def history(label: str = "openai:gpt-6-sol", *, picture: bool = False) -> tuple[Content, ...]:
    return (PICTURE if picture else QUESTION, calls(label), RESULTS, ANSWER, FOLLOW_UP)


def turns(label: str = "openai:gpt-6-sol", *, picture: bool = False) -> list[ModelRequest]:
    """The requests of one run: each has what was said since the one before."""
    said = history(label, picture=picture)
    return [request(Context(*FRONT, *said[:end])) for end in (1, 3, 5)]


def plan(*indices: int, mode: str = "implicit", **more: Any) -> CachePlan:
    """A plan with marks at these blocks, without lifetimes of their own."""
    options = OpenAiOptions(api="chat", mode=mode)  # type: ignore[arg-type]
    marks = tuple(PlacedMark(index=index) for index in indices)
    made = CachePlan(marks=marks, openai=options, predicted=PREDICTION)
    return dataclasses.replace(made, **more)


NO_PLAN = plan()


def adapter(profile: Profile = OPENAI, model: str | None = None, **more: Any) -> ChatAdapter:
    """An adapter on the real client."""
    client = more.pop("client", None) or _client()
    timing = {"now_s": more.pop("now_s")} if "now_s" in more else {}
    return ChatAdapter(
        model or MODELS.get(profile.provider, "m"),
        profile=profile,
        client=client,
        options=ChatOptions(**more),
        **timing,
    )


@functools.cache
def _client() -> AsyncOpenAI:
    """Making one takes longer than most tests; responses are mocked, so no loop owns it."""
    return AsyncOpenAI(api_key="sk-test", base_url=BASE_URL)


def body(
    made: ModelRequest, planned: CachePlan = NO_PLAN, profile: Profile = OPENAI, **more: Any
) -> Body:
    """The final bytes of one request."""
    api = adapter(profile, **more)
    return api.body(api.layout(made), planned, made)


def sent(
    made: ModelRequest, planned: CachePlan = NO_PLAN, profile: Profile = OPENAI, **more: Any
) -> dict[str, Any]:
    """The same, parsed."""
    parsed: dict[str, Any] = json.loads(body(made, planned, profile, **more).data)
    return parsed


def prompt_bytes(data: bytes) -> bytes:
    """A body up to and with its last message, without the bracket behind it."""
    decoder = json.JSONDecoder()
    text = data.decode()
    begin = text.index('"messages":') + len('"messages":')
    _, end = decoder.raw_decode(text, begin)
    return text[: end - 1].encode()


def without_marks(data: bytes) -> bytes:
    """The bytes without any mark of a known form."""
    for mark in (
        b',"prompt_cache_breakpoint":{"mode":"explicit"}',
        b',"cache_control":{"type":"ephemeral"}',
    ):
        data = data.replace(mark, b"")
    return data


def chunk(
    delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta or {}), "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]} | more


def usage_chunk(**usage: Any) -> dict[str, Any]:
    """The last chunk: usage only, no choices."""
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage}


SAID = (chunk({"role": "assistant", "content": "Hi"}), chunk({}, "stop"))
"""A whole answer without usage."""
COUNTED = usage_chunk(
    prompt_tokens=9, completion_tokens=1, prompt_tokens_details={"cached_tokens": 4}
)
"""The usage that follows it."""


def sse(*chunks: Mapping[str, Any]) -> httpx.Response:
    """A response that streams these chunks."""
    lines = [f"data: {json.dumps(each)}\n\n" for each in chunks]
    content = "".join([*lines, "data: [DONE]\n\n"]).encode()
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)


def refused(message: str, status: int = 400, **error: Any) -> httpx.Response:
    """An error response."""
    return httpx.Response(status, json={"error": {"message": message} | error})


async def collect(api: ChatAdapter, to_send: Body) -> list[ModelEvent]:
    return [event async for event in api.stream(to_send)]


def detail(source: str, text: str) -> VendorItem:
    """One of OpenRouter's reasoning details."""
    data = json.dumps({"type": "reasoning.text", "text": text, "index": 0}, ensure_ascii=False)
    return VendorItem(source=source, data=data)


class Clock:
    """A monotonic clock that goes on by one second at every look."""

    def __init__(self) -> None:
        self._ticks: Iterator[float] = iter(map(float, range(1_000_000)))
        self.offset = 0.0

    def __call__(self) -> float:
        return next(self._ticks) + self.offset
