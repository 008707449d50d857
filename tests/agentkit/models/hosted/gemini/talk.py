"""A conversation to lay out, plans by hand, and the official client over a transport of ours."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from google import genai
from google.genai.types import HttpOptions

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.plan import CachedFront, CachePlan, Prediction
from agentkit.caching.policy import InputSplit
from agentkit.caching.times import Time
from agentkit.context import Context, Document, SystemPart, SystemText, ToolList
from agentkit.context.segment import Content
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.gemini import GeminiAdapter, GeminiOptions
from agentkit.models.hosted.wire import Body, Layout
from agentkit.toolset import Toolset, tool

MODEL = "gemini-3.8-flash"
LABEL = f"gemini:{MODEL}"


@tool
def look(path: str, zoom: float = 1.0) -> str:
    """Look at a picture."""
    return f"{path} at {zoom}"


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


TOOLSET = Toolset([look, add])
FRONT: tuple[Content, ...] = (
    SystemText(SystemPart.RULES, "Be honest."),
    ToolList(TOOLSET.bytes),
    SystemText(SystemPart.ROLE, "You look and add."),
    SystemText(SystemPart.EXAMPLES, "Q: 1+1\nA: 2"),
    Document(uri="a.md", text="One.\n"),
)
SIGNATURE = '{"thoughtSignature":"c2lnbmVk"}'
ASK = UserMessage.of("What is in it?", Image(media_type="image/png", data="iVBORw0KGgo="))
TURN = AssistantMessage(
    (
        Thinking("I should look.", None, LABEL),
        Text("Two looks. "),
        VendorItem(source=LABEL, data=SIGNATURE),
        ToolCall(id="fc-1", name="look", arguments='{ "zoom":1.0,"path" : "a\\u00e9" }'),
        ToolCall(id="gemini_call_r_1", name="add", arguments='{"b":2,"a":1}'),
    )
)
RESULTS = ToolMessage(
    (
        ToolResult(
            call_id="fc-1",
            name="look",
            content="a boat",
            attachments=(Image(media_type="image/jpeg", url="https://x.test/b.jpg"),),
        ),
        ToolResult(call_id="gemini_call_r_1", name="add", content="no", is_error=True),
    )
)
ANSWER = AssistantMessage(
    (
        Text("A boat."),
        VendorItem(source=LABEL, data='{"text":"","thoughtSignature":"ZW5k"}'),
    )
)
NEXT = UserMessage.of(
    "Read this.", File(name="p.pdf", media_type="application/pdf", data="JVBERi0=")
)
HISTORY: tuple[Content, ...] = (ASK, TURN, RESULTS, ANSWER, NEXT)


def context(n_messages: int = len(HISTORY), front: Sequence[Content] = FRONT) -> Context:
    return Context(*front, *HISTORY[:n_messages])


def request(context: Context, toolset: Toolset = TOOLSET, /, **changes: object) -> ModelRequest:
    made = ModelRequest(context=context, toolset=toolset, agent="a", run_id="r", request_id="r-0-0")
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def plan(layout: Layout, **changes: object) -> CachePlan:
    n_tokens = sum(wire.block.n_tokens for wire in layout.blocks)
    split = InputSplit(read=0, uncached=n_tokens)
    made = CachePlan(predicted=Prediction(split=split, hit=0, cost=None, uncached=None))
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def finished(adapter: GeminiAdapter, wanted: ModelRequest, **changes: object) -> Body:
    layout = adapter.layout(wanted)
    return adapter.body(layout, plan(layout, **changes), wanted)


def long_front(n_words: int = 6_000) -> tuple[Content, ...]:
    """A front that is long enough for an object."""
    rules, tools, role, *_ = FRONT
    return rules, tools, role, Document(uri="long.md", text="word " * n_words)


def object_plan(adapter: GeminiAdapter, wanted: ModelRequest, *, ttl_s: int = 600) -> Body:
    """The bytes for a plan whose object holds tools and system instruction."""
    layout = adapter.layout(wanted)
    end = len(layout.cache_request.tools) + len(layout.cache_request.system)
    front = CachedFront(end=end, ttl_s=ttl_s)
    return adapter.body(layout, plan(layout, cached_front=front), wanted)


def sse(*events: object) -> bytes:
    return b"".join(
        b"data: "
        + (event if isinstance(event, bytes) else json.dumps(event).encode())
        + b"\r\n\r\n"
        for event in events
    )


def said(*parts: object, finish: str | None = "STOP", **usage: int) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    counts = usage or {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": counts, "responseId": "resp"}


def refusal(code: int, status: str, message: str, *details: object) -> httpx2.Response:
    error = {"code": code, "status": status, "message": message, "details": list(details)}
    return httpx2.Response(code, json={"error": error})


OK = said({"text": "ok"})

Reply = httpx2.Response | Exception | Callable[[httpx2.Request], Any]


@dataclass
class FakeServer:
    """Answers with what it is given, by the last part of the path; keeps what it was sent."""

    replies: dict[str, list[Reply]] = field(default_factory=dict)
    sent: list[httpx2.Request] = field(default_factory=list)

    def reply(self, to: str, *replies: Reply) -> FakeServer:
        self.replies.setdefault(to, []).extend(replies)
        return self

    async def __call__(self, got: httpx2.Request) -> httpx2.Response:
        self.sent.append(got)
        queue = self.replies.get(_kind(got), [])
        if not queue:
            return self._default(got)
        reply = queue.pop(0)
        if callable(reply) and not isinstance(reply, httpx2.Response):
            reply = reply(got)
            if not isinstance(reply, httpx2.Response):
                reply = await reply
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, httpx2.Response)
        return reply

    async def got(self, kind: str, n: int) -> None:
        """Wait until `n` requests of the kind have come."""
        for _ in range(1_000):
            if sum(_kind(each) == kind for each in self.sent) >= n:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{n} requests {kind!r} never came: {self.paths()}")

    def paths(self) -> list[str]:
        return [f"{got.method} {got.url.path.rsplit('/', 1)[-1]}" for got in self.sent]

    def bodies(self, kind: str) -> list[Any]:
        return [json.loads(got.content) for got in self.sent if _kind(got) == kind]

    def _default(self, got: httpx2.Request) -> httpx2.Response:
        if _kind(got) == "stream":
            return httpx2.Response(200, content=sse(OK))
        if _kind(got) == "create":
            n = len([1 for each in self.sent if _kind(each) == "create"])
            usage = {"totalTokenCount": 7_000}
            return httpx2.Response(
                200, json={"name": f"cachedContents/{n}", "usageMetadata": usage}
            )
        return httpx2.Response(200, json={})

    def client(self) -> genai.Client:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return genai.Client(
            vertexai=False, api_key="test", http_options=HttpOptions(httpx_async_client=http)
        )

    def adapter(
        self, model: str = MODEL, *, time: Time | None = None, options: GeminiOptions | None = None
    ) -> GeminiAdapter:
        return GeminiAdapter(model, client=self.client(), time=time, options=options)


async def events_of(stream: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in stream]


def _kind(got: httpx2.Request) -> str:
    if got.url.path.endswith(":streamGenerateContent"):
        return "stream"
    return {"POST": "create", "PATCH": "renew", "DELETE": "delete", "GET": "get"}[got.method]


def json_of(data: bytes) -> Mapping[str, Any]:
    value = json.loads(data)
    assert isinstance(value, dict)
    return value
