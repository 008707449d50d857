"""Traces across processes: headers to APIs, `_meta` to MCP servers, numbers to Prometheus."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.trace import SpanKind
from prometheus_client import REGISTRY, generate_latest

from agentkit import Agent, McpServer, tool
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, FakeProvider, Reply
from agentkit.fake import Call as FakeCall
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.observe.otel import OpenTelemetry
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.observe.spans import Seen, attributes

RULES = "Always be brief and never guess. " * 120


def looks_then_answers(ask: Ask) -> Reply:
    timing = {"first_byte_s": 2.0, "seconds": 3.0}
    if not ask.n_turns:
        return Reply(text="Looking.", calls=(FakeCall("look", "{}"),), **timing)
    return Reply(text="Done.", **timing)


class World:
    """A provider in virtual time whose requests are kept as they arrive."""

    def __init__(self, provider: str, seen: Seen | None) -> None:
        self.time = VirtualTime()
        self.fake = FakeProvider(time=self.time, respond=looks_then_answers)
        self.arrived: list[tuple[dict[str, str], bytes]] = []
        self._http = httpx2.AsyncClient(transport=_Kept(self.fake, self.arrived), timeout=None)
        if seen is not None:
            HTTPX2ClientInstrumentor.instrument_client(self._http, tracer_provider=seen.tracers)
        adapter: Any
        if provider == "anthropic":
            anthropic = AsyncAnthropic(api_key="k", base_url="http://fake", http_client=self._http)
            adapter = AnthropicAdapter("claude-sonnet-5-5", client=anthropic)
        else:
            openai = AsyncOpenAI(api_key="k", base_url="http://fake/v1", http_client=self._http)
            adapter = ResponsesAdapter("gpt-6.1-sol", client=openai)
        self.model: HostedModel[Any] = HostedModel(adapter, time=self.time)

    async def ask(self, seen: Seen | None, *, role: str = "You look.", tool_s: float = 1.0) -> Any:
        @tool
        async def look() -> str:
            """Look."""
            await self.time.sleep(tool_s)
            return "found " * 400

        agent = Agent(
            model=self.model,
            name="clerk",
            instructions=role,
            rules=RULES,
            tools=[look],
            telemetry=None if seen is None else seen.telemetry,
        )
        return await self.time.drive(agent.run("Where?", session="s", run_id="r"))


class _Kept(httpx2.AsyncBaseTransport):
    def __init__(self, fake: FakeProvider, arrived: list[tuple[dict[str, str], bytes]]) -> None:
        self._inner = fake.transport()
        self._arrived = arrived

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._arrived.append((dict(request.headers), await request.aread()))
        return await self._inner.handle_async_request(request)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_the_trace_goes_on_in_the_header_and_the_body_has_the_same_bytes(
    provider: str,
) -> None:
    """HTTP instrumentation finds the request's span current; the cache never sees a trace id."""
    seen = Seen()
    traced, plain = World(provider, seen), World(provider, None)
    await traced.ask(seen)
    await plain.ask(None)
    assert [body for _, body in traced.arrived] == [body for _, body in plain.arrived]
    chats = [span for span in seen.spans if span.name.startswith("chat ")]
    sends = [span for span in seen.spans if span.name == "POST"]
    assert [seen.parent(span) for span in sends] == chats
    assert [headers["traceparent"].split("-")[1:3] for headers, _ in traced.arrived] == [
        [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"] for span in sends
    ]
    assert not any("traceparent" in headers for headers, _ in plain.arrived)
    assert {span.kind for span in chats} == {SpanKind.CLIENT}


async def test_what_the_cache_did_and_cost_is_on_the_requests_span() -> None:
    seen = Seen()
    result = await World("anthropic", seen).ask(seen)
    chats = [attributes(span) for span in seen.spans if span.name == "chat claude-sonnet-5-5"]
    for chat, request in zip(chats, result.requests, strict=True):
        assert chat["gen_ai.provider.name"] == "anthropic"
        assert chat["agentkit.cost.usd"] == float(request.verdict.cost.total)
        assert chat["agentkit.cost.uncached_usd"] == float(request.verdict.uncached_cost)
        assert chat["agentkit.cache.predicted_read_tokens"] == request.verdict.predicted.split.read
        assert chat["gen_ai.response.time_to_first_chunk"] == 2.0
        assert "agentkit.cache.miss.cause" not in chat
    run = attributes(seen.one("invoke_agent clerk"))
    assert run["agentkit.cost.usd"] == pytest.approx(float(result.cost.known))
    assert run["agentkit.cost.unpriced_requests"] == 0
    assert sum(point.value for point in seen.points("agentkit.cost")) == pytest.approx(
        float(result.cost.known)
    )


async def test_the_cause_of_a_miss_is_an_attribute_and_an_event_without_the_prompts_text() -> None:
    seen, told = Seen(), Seen(content=True)
    for each in (seen, told):
        world = World("anthropic", each)
        for edition in (41, 42):
            await world.ask(each, role=f"Edition {edition}. " + "You look things up. " * 120)
    late = [span for span in seen.spans if span.name == "chat claude-sonnet-5-5"][2]
    assert attributes(late)["agentkit.cache.miss.cause"] == "segment_changed"
    assert attributes(late)["agentkit.cache.lost_tokens"] > 0
    [event] = late.events
    assert event.name == "agentkit.cache.miss"
    found = dict(event.attributes or {})
    assert found["agentkit.cache.miss.segment"] == "system/role"
    assert found["agentkit.cache.miss.section"] == "system"
    assert found["agentkit.cost.lost_usd"] > 0
    assert "Edition" not in "".join(span.to_json() for span in seen.spans)
    assert "Edition 41" in "".join(span.to_json() for span in told.spans)
    [misses] = seen.points("agentkit.cache.misses")
    assert misses.attributes["agentkit.cache.miss.cause"] == "segment_changed"
    [lost] = seen.points("agentkit.cache.lost_tokens")
    assert lost.value == attributes(late)["agentkit.cache.lost_tokens"]


async def test_requests_that_keep_the_prefix_alive_have_no_span_and_are_counted() -> None:
    seen = Seen()
    result = await World("anthropic", seen).ask(seen, tool_s=400.0)
    chats = [span for span in seen.spans if span.name.startswith("chat ")]
    n_pings = len(result.requests) - len(chats)
    assert n_pings > 0
    assert attributes(seen.one("invoke_agent clerk"))["agentkit.cache.keep_alive_requests"] == (
        n_pings
    )
    assert sum(point.value for point in seen.points("agentkit.cost")) == pytest.approx(
        float(result.cost.known)
    )
    read = seen.points("gen_ai.client.inference.usage.cache_read.input_tokens")
    assert sum(point.value for point in read) == result.usage.cache_read_tokens


SERVER = """
import json
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
server = MCPServer("echo")
@server.tool()
def meta(ctx: Context) -> str:
    "Return the request's metadata."
    return json.dumps(dict(ctx.request_context.meta or {}), default=str)
server.run("stdio")
"""


async def test_the_trace_goes_on_in_the_metadata_of_mcp_calls(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    server = McpServer(alias="echo", command=[sys.executable, str(path)], connect_timeout_s=60)
    seen = Seen()
    agent = Agent(
        model=ScriptedModel([Call("echo__meta"), "done"]),
        name="clerk",
        tools=[server],
        telemetry=seen.telemetry,
    )
    result = await agent.run("x")
    meta = json.loads(result.messages[2].results[0].content)  # type: ignore[union-attr]
    call = seen.one("execute_tool echo__meta")
    trace_id, span_id = meta["traceparent"].split("-")[1:3]
    assert trace_id == f"{call.context.trace_id:032x}"
    assert span_id == f"{call.context.span_id:016x}"


async def test_prometheus_reads_the_metrics_through_opentelemetrys_exporter() -> None:
    reader = PrometheusMetricReader(disable_target_info=True)
    meters = MeterProvider([reader], shutdown_on_exit=False)
    telemetry = OpenTelemetry(meter_provider=meters)
    try:
        await Agent(model=ScriptedModel(["hi"]), name="clerk", telemetry=telemetry).run("x")
        text = generate_latest(REGISTRY).decode()
    finally:
        meters.shutdown()
    lines = [line for line in text.splitlines() if line.startswith("gen_ai_client_inference_")]
    assert any("usage_cache_read_input_tokens" in line for line in lines), text
    assert any('gen_ai_agent_name="clerk"' in line for line in lines)
    assert "gen_ai_invoke_agent_duration_seconds_count" in text
