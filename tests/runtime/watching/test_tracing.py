"""Traces: a client's goes on in the server, down to the engine's phases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from agentkit import Agent
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import ChatAdapter
from agentkit.models.hosted.openai_chat.profiles import VLLM
from agentkit_runtime.watching import WatchOptions
from agentkit_runtime.watching.tracing import Tracing
from tests.agentkit.observe.spans import Seen, attributes

from .conftest import MakeWatched, Watched


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen()


@pytest.fixture(scope="module")
def traced(watched_server: MakeWatched, seen: Seen) -> Iterator[Watched]:
    with watched_server(WatchOptions(otel=True), tracer_provider=seen.tracers) as server:
        yield server


def server_span(seen: Seen, trace_id: str) -> ReadableSpan:
    [span] = [
        span
        for span in seen.spans
        if span.kind is SpanKind.SERVER and f"{span.context.trace_id:032x}" == trace_id
    ]
    return span


def ask(server: Watched, trace_id: str, text: str = "hello", **options: Any) -> Any:
    parent = f"00-{trace_id}-00f067aa0ba902b7-01"
    answer = server.chat(text, headers={"traceparent": parent}, **options)
    server.client.get("/v1/models")  # on the same connection: what came before it has ended
    return answer


def test_a_span_says_what_was_read_from_the_cache(traced: Watched, seen: Seen) -> None:
    ask(traced, "1" * 32)
    ask(traced, "2" * 32)
    span = server_span(seen, "2" * 32)
    found = attributes(span)
    assert span.name == "chat scripted"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert found["gen_ai.operation.name"] == "chat"
    n_prompt = found["gen_ai.usage.input_tokens"]
    assert found["gen_ai.usage.cache_read.input_tokens"] == n_prompt - 1
    assert found["gen_ai.usage.cache_write.input_tokens"] == 1
    assert found["gen_ai.usage.output_tokens"] == 7
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["agentkit.cache.miss.cause"] == "cached"
    assert (found["http.route"], found["http.response.status_code"]) == (
        "/v1/chat/completions",
        200,
    )


def test_the_engines_phases_lie_below_it_one_behind_the_other(traced: Watched, seen: Seen) -> None:
    ask(traced, "3" * 32)
    span = server_span(seen, "3" * 32)
    children = [s for s in seen.spans if s.parent and s.parent.span_id == span.context.span_id]
    children.sort(key=lambda s: s.start_time or 0)
    assert [child.name for child in children] == ["queue", "prefill", "decode"]
    for child, following in itertools.pairwise(children):
        assert child.end_time == pytest.approx(following.start_time, abs=2000)
    assert span.end_time is not None
    assert children[-1].end_time is not None
    assert children[-1].end_time <= span.end_time


def test_failures_are_marked_and_the_clients_own_are_not_the_servers(
    traced: Watched, seen: Seen
) -> None:
    answer = traced.client.post(
        "/v1/chat/completions",
        json={"model": "other"},
        headers={"traceparent": f"00-{'4' * 32}-00f067aa0ba902b7-01"},
    )
    assert answer.status_code == 400
    traced.client.get("/v1/models")
    span = server_span(seen, "4" * 32)
    assert span.name == "POST /v1/chat/completions"
    assert span.status.status_code is StatusCode.UNSET, "a client's mistake (HTTP conventions)"


async def test_an_agents_run_and_its_server_are_one_trace(watched_server: MakeWatched) -> None:
    seen = Seen()
    options = WatchOptions(otel=True)
    with watched_server(options, tracer_provider=seen.tracers) as server:
        async with httpx2.AsyncClient() as http:
            HTTPX2ClientInstrumentor.instrument_client(http, tracer_provider=seen.tracers)
            client = AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", http_client=http)
            model = HostedModel(ChatAdapter("scripted", profile=VLLM, client=client))
            agent = Agent(model=model, name="clerk", telemetry=seen.telemetry)
            result = await agent.run("hello")
            assert "who are you" in str(result.output)
    # The server has ended, and with it the last of its spans.
    assert seen.tree() == [
        "invoke_agent clerk",
        "invoke_agent clerk > chat scripted",
        "invoke_agent clerk > chat scripted > POST",
        "invoke_agent clerk > chat scripted > POST > chat scripted",
        *(
            f"invoke_agent clerk > chat scripted > POST > chat scripted > {phase}"
            for phase in ("queue", "prefill", "decode")
        ),
    ]


def test_a_server_whose_spans_go_nowhere_says_so(caplog: pytest.LogCaptureFixture) -> None:
    Tracing("model", Seen().tracers)
    assert not caplog.records
    Tracing("model")
    assert "opentelemetry-instrument" in caplog.text
