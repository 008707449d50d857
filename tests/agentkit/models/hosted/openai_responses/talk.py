"""A conversation as requests, plans made by hand, and the API's side of it as events."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from openai import AsyncOpenAI

from agentkit.blocks import (
    AssistantMessage,
    File,
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
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.openai_responses import ResponsesAdapter, ResponsesOptions
from agentkit.models.hosted.wire import Body
from tests.agentkit.models.hosted.weather import (
    ANSWER,
    FRONT,
    PREDICTION,
    RESULTS,
    request,
)

URL = "https://api.openai.com/v1/responses"
LABEL = "openai:gpt-6-sol"


# Odd spacing and key order on purpose: it is what the model wrote.
ARGUMENTS = '{ "city" : "Zürich",\n "a":1 }'
REASONING = VendorItem(
    source=LABEL,
    data='{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAB/é=="}',
)
QUESTION = UserMessage.of("Which city is this?", Image.of_bytes(b"\x89PNG", "image/png"))
CALLS = AssistantMessage(
    (
        Thinking("I should look.", source=LABEL),
        REASONING,
        Text("Looking."),
        ToolCall(id="call_1", name="weather", arguments=ARGUMENTS),
        ToolCall(id="call_2", name="lookup", arguments='{"word":"Föhn"}'),
    )
)
FOLLOW_UP = UserMessage.of(
    "And this report?", File.of_bytes(b"%PDF", "application/pdf", name="r.pdf")
)
HISTORY = (QUESTION, CALLS, RESULTS, ANSWER, FOLLOW_UP)


def turns() -> list[ModelRequest]:
    """The requests of one run: each has what was said since the one before."""
    return [request(Context(*FRONT, *HISTORY[:end])) for end in (1, 3, 5)]


def plan(*indices: int, mode: str = "explicit", **more: Any) -> CachePlan:
    """A plan with marks at these blocks, without lifetimes of their own."""
    options = OpenAiOptions(mode=mode)  # type: ignore[arg-type]
    marks = tuple(PlacedMark(index=index) for index in indices)
    made = CachePlan(marks=marks, openai=options, predicted=PREDICTION)
    return dataclasses.replace(made, **more)


NO_PLAN = plan(mode="implicit")


def adapter(model: str = "gpt-6-sol", **options: Any) -> ResponsesAdapter:
    """An adapter on the real client."""
    return ResponsesAdapter(
        model, client=AsyncOpenAI(api_key="sk-test"), options=ResponsesOptions(**options)
    )


def body(made: ModelRequest, planned: CachePlan = NO_PLAN, **options: Any) -> Body:
    """The final bytes of one request."""
    api = adapter(**options)
    return api.body(api.layout(made), planned, made)


def sent(made: ModelRequest, planned: CachePlan = NO_PLAN, **options: Any) -> dict[str, Any]:
    """The same, parsed."""
    parsed: dict[str, Any] = json.loads(body(made, planned, **options).data)
    return parsed


def sse(*events: Mapping[str, Any]) -> httpx.Response:
    """A response that streams these events."""
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return httpx.Response(
        200, headers={"content-type": "text/event-stream"}, content="".join(lines).encode()
    )


def created(response_id: str = "resp_1") -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response_id, "object": "response"}}


def completed(
    usage: Mapping[str, Any] | None = None, kind: str = "completed", **more: Any
) -> dict[str, Any]:
    response = {"id": "resp_1", "object": "response", "usage": usage} | more
    return {"type": f"response.{kind}", "response": response}


def text(delta: str, index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta}


def added(item: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": dict(item)}


def done(item: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": dict(item)}


def refused(message: str, status: int = 400, **error: Any) -> httpx.Response:
    """An error response."""
    return httpx.Response(status, json={"error": {"message": message} | error})


async def collect(api: ResponsesAdapter, to_send: Body) -> list[ModelEvent]:
    return [event async for event in api.stream(to_send)]


def starts_with(later: Iterable[bytes], earlier: Iterable[bytes]) -> bool:
    later, earlier = list(later), list(earlier)
    return later[: len(earlier)] == earlier
