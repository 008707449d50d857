"""What the tests of the Anthropic adapter have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import httpx
from anthropic.types.beta.message_create_params import (
    MessageCreateParamsStreaming as BetaMessageCreateParamsStreaming,
)
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter

from agentkit.blocks import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.caching.plan.plan import CachePlan, PlacedMark, Prediction
from agentkit.caching.policy import InputSplit, Ttl
from agentkit.context import Context, Document, SystemPart, SystemText, ToolList
from agentkit.context.segment import Content
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.wire import Layout
from agentkit.toolset import Toolset, ToolSpec
from tests.agentkit.json_text import elements, members

URL = "https://api.anthropic.com/v1/messages"
MODEL = "claude-sonnet-5-5"
LABEL = f"anthropic:{MODEL}"
NOTHING = Prediction(split=InputSplit(read=0, uncached=0), hit=0, cost=None, uncached=Decimal(0))


class NamedTool:
    """A tool that only has a spec."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def call(self, arguments: Mapping[str, object], context: Any) -> Any:
        raise NotImplementedError


def tool(name: str, **properties: Mapping[str, object]) -> NamedTool:
    parameters = {"type": "object", "properties": dict(properties)}
    return NamedTool(ToolSpec(name=name, description=f"Does {name}.", parameters=parameters))


TOOLS = Toolset([tool("search", query={"type": "string"}), tool("read", path={"type": "string"})])


def front(toolset: Toolset = TOOLS) -> Context:
    return Context(
        SystemText(SystemPart.RULES, "Be exact."),
        ToolList(toolset.bytes),
        SystemText(SystemPart.ROLE, "You read papers."),
        Document(uri="doc:a", text="A paper."),
    )


def ask(context: Context, *, toolset: Toolset = TOOLS, **values: Any) -> ModelRequest:
    given = {"agent": "reader", "run_id": "r", "request_id": "r-0-0"} | values
    return ModelRequest(context=context, toolset=toolset, **given)


def question(text: str = "Where is the deadline?") -> Context:
    return front().append(UserMessage.of(text))


def call_turn(*calls: ToolCall, before: Sequence[Any] = ()) -> tuple[Content, Content]:
    """A turn that calls tools, and the results."""
    results = tuple(ToolResult(call_id=c.id, name=c.name, content=f"{c.name} ok") for c in calls)
    return AssistantMessage((*before, *calls)), ToolMessage(results)


def plan(*marks: int | tuple[int, Ttl]) -> CachePlan:
    placed = [
        PlacedMark(index=mark) if isinstance(mark, int) else PlacedMark(index=mark[0], ttl=mark[1])
        for mark in marks
    ]
    return CachePlan(marks=tuple(placed), predicted=NOTHING)


def sent(adapter: AnthropicAdapter, request: ModelRequest, *marks: int | tuple[int, Ttl]) -> bytes:
    """The final bytes of a request."""
    return adapter.body(adapter.layout(request), plan(*marks), request).data


def last_stable(layout: Layout) -> int:
    return len(layout.blocks) - layout.n_volatile - 1


def as_the_sdk_types_it(data: bytes, *, beta: bool = False) -> Any:
    """Read a body by the parameter types of the official client: what they do not have is lost."""
    params = BetaMessageCreateParamsStreaming if beta else MessageCreateParamsStreaming
    adapter = TypeAdapter[Any](params)  # lists are read lazily, and only while it lives
    return _whole(adapter.validate_json(data))


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [_whole(each) for each in value]


_MARK = re.compile(r',"cache_control":\{"type":"ephemeral"(?:,"ttl":"(5m|1h)")?\}\}$')


def on_wire(data: bytes) -> list[tuple[str, str]]:
    """Read a body as the cache does: who speaks, and the exact text of each piece, without marks.

    Neighbouring messages of one role are one for the API, so their border is not there.
    """
    return [(where, _MARK.sub("}", text)) for where, text in _pieces(data)]


def marks_on_wire(data: bytes) -> dict[int, str | None]:
    """Where the marks are, and the lifetimes they name."""
    found = ((index, _MARK.search(text)) for index, (_, text) in enumerate(_pieces(data)))
    marks = {index: match[1] for index, match in found if match}
    assert len(marks) == data.count(b'"cache_control"'), "a mark lies where no cache sees it"
    return marks


def stable_on_wire(data: bytes, layout: Layout) -> list[tuple[str, str]]:
    pieces = on_wire(data)
    return pieces[: len(pieces) - layout.n_volatile]


def _pieces(data: bytes) -> list[tuple[str, str]]:
    body = dict(members(data.decode()))
    found = [("tools", text) for text in elements(body.get("tools", "[]"))]
    found += [("system", text) for text in elements(body.get("system", "[]"))]
    for message in elements(body["messages"]):
        parts = dict(members(message))
        found += [(json.loads(parts["role"]), text) for text in elements(parts["content"])]
    return found


Event = dict[str, Any]


def message_start(usage: Event | None = None, **values: Any) -> Event:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], **values}
    counts = {
        "input_tokens": 100,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
        "output_tokens": 1,
    }
    return {"type": "message_start", "message": {**message, "usage": usage or counts}}


def block(index: int, content_block: Event, *deltas: Event) -> list[Event]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": content_block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *texts: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thinking_block(index: int, text: str, signature: str) -> list[Event]:
    return block(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": text},
        {"type": "signature_delta", "signature": signature},
    )


def call_block(index: int, call_id: str, name: str, *parts: str, **more: Any) -> list[Event]:
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block(
        index, {"type": "tool_use", "id": call_id, "name": name, "input": {}, **more}, *deltas
    )


def message_end(stop_reason: str = "end_turn", **usage: Any) -> list[Event]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": {"output_tokens": 7, **usage},
        },
        {"type": "message_stop"},
    ]


def answer(*blocks: list[Event], stop_reason: str = "end_turn") -> list[Event]:
    return [message_start(), *(each for b in blocks for each in b), *message_end(stop_reason)]


def sse(events: Sequence[Event]) -> bytes:
    lines = [
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    ]
    return "".join(lines).encode()


def streamed(events: Sequence[Event]) -> httpx.Response:
    return httpx.Response(200, content=sse(events), headers={"content-type": "text/event-stream"})


async def collect(
    adapter: AnthropicAdapter, request: ModelRequest, *marks: int
) -> list[ModelEvent]:
    body = adapter.body(adapter.layout(request), plan(*marks), request)
    return [event async for event in adapter.stream(body)]
