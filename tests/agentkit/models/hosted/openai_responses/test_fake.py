"""Against the fake provider: its own reading of our bytes, and a cache that charges for them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from openai import AsyncOpenAI

from agentkit.blocks import ToolMessage, ToolResult, UserMessage
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.request import CacheRequest, Tenant
from agentkit.caching.times import VirtualTime
from agentkit.context import Context
from agentkit.events import Turn, UsageEvent
from agentkit.fake import FakeProvider
from agentkit.fake.api import HttpCall
from agentkit.fake.openai.responses_parse import parse
from agentkit.folding import fold
from agentkit.models.hosted.openai_responses import ResponsesAdapter, ResponsesOptions
from agentkit.models.hosted.openai_responses.layout import ResponsesLayout
from tests.agentkit.models.hosted.openai_responses.talk import (
    HISTORY,
    QUESTION,
    adapter,
    collect,
    plan,
)
from tests.agentkit.models.hosted.weather import FRONT, PREDICTION, RULES, request

LONG = dataclasses.replace(RULES, text="All work and no play makes Jack a dull boy. " * 200)
START = Context(LONG, *FRONT[1:], QUESTION)


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
async def client(time: VirtualTime) -> AsyncIterator[AsyncOpenAI]:
    fake = FakeProvider(time=time)
    async with httpx2.AsyncClient(transport=fake.transport()) as http:
        yield AsyncOpenAI(api_key="k", base_url="http://fake/v1", http_client=http)


@pytest.fixture
def api(client: AsyncOpenAI) -> ResponsesAdapter:
    return ResponsesAdapter("gpt-6-sol", client=client, options=ResponsesOptions(diagnose=True))


def run_plan(layout: ResponsesLayout) -> CachePlan:
    """Marks at the front, where the run's last request ended, and where this one ends."""
    ends = [prefix.end - 1 for prefix in layout.shared]
    return plan(*sorted({ends[1], *ends[-2:]}), cache_key="k")


async def turn(api: ResponsesAdapter, context: Context) -> Turn:
    made = request(context)
    layout = api.layout(made)
    return fold(await collect(api, api.body(layout, run_plan(layout), made)))


def next_step(context: Context, answered: Turn) -> Context:
    context = context.append(answered.message)
    if not context.open_calls:
        return context.append(UserMessage.of("Go on."))
    results = (
        ToolResult(call_id=call.id, name=call.name, content="7 °C") for call in context.open_calls
    )
    return context.append(ToolMessage(tuple(results)))


async def test_a_run_reads_all_that_its_last_request_sent(api: ResponsesAdapter) -> None:
    context, sent = START, 0
    for number in range(5):
        answered = await turn(api, context.with_volatile(f"turn {number}"))

        usage = answered.usage
        assert usage.input_tokens is not None
        assert usage.cache_read_tokens is not None
        assert usage.cache_write_tokens is not None
        assert usage.cache_read_tokens == sent
        sent = usage.cache_read_tokens + usage.cache_write_tokens
        assert usage.input_tokens - sent < 20, "only the volatile text is neither"
        context = next_step(context, answered)


async def test_another_process_reads_what_was_written_before_a_restart(
    api: ResponsesAdapter, client: AsyncOpenAI
) -> None:
    first = await turn(api, START)
    dumped = next_step(START, first).dump()

    restarted = ResponsesAdapter("gpt-6-sol", client=client)
    second = await turn(restarted, Context.load(dumped))

    assert second.usage.cache_read_tokens == first.usage.input_tokens


async def test_a_touch_keeps_an_entry_alive_for_little(
    api: ResponsesAdapter, time: VirtualTime
) -> None:
    made = request(START)
    layout = api.layout(made)
    body = api.body(layout, run_plan(layout), made)
    first = fold(await collect(api, body))

    await time.advance(1_500)
    touched = await api.touch(body)
    await time.advance(1_500)
    again = await turn(api, START)

    assert isinstance(touched, UsageEvent)
    assert touched.usage.output_tokens == 0
    assert touched.usage.cache_read_tokens == first.usage.input_tokens
    assert again.usage.cache_read_tokens == first.usage.input_tokens


async def test_the_provider_says_why_less_was_read(api: ResponsesAdapter) -> None:
    await turn(api, START)
    other = Context(dataclasses.replace(LONG, text="X" + LONG.text), *FRONT[1:], QUESTION)
    made = request(other)
    layout = api.layout(made)

    events = await collect(api, api.body(layout, run_plan(layout), made))

    notes = [event.cache_note for event in events if isinstance(event, UsageEvent)]
    assert str(notes[-1]).startswith("cache_miss: input_changed")


def test_our_blocks_are_those_that_the_api_reads_in_our_bytes() -> None:
    made = request(Context(*FRONT, *HISTORY).with_volatile("noon"))
    api = adapter()
    layout = api.layout(made)
    ends = [prefix.end - 1 for prefix in layout.shared]
    planned = CachePlan(
        marks=plan(*ends).marks, openai=plan().openai, cache_key="k", predicted=PREDICTION
    )

    body = json.loads(api.body(layout, planned, made).data)
    call = HttpCall(path="/v1/responses", body=body, headers={}, tenant=Tenant())
    read = parse(call, earlier=()).request

    ours = planned.applied(layout.cache_request)
    assert shape(read) == shape(ours)
    assert read.identity == ours.identity
    assert (read.openai, read.terms, read.stream) == (ours.openai, ours.terms, ours.stream)


def shape(seen: CacheRequest) -> object:
    """Sections, roles, kinds and marks: all but the digests and the lengths."""
    turns: list[tuple[str, list[object]]] = []
    for message in seen.messages:
        blocks = [(block.kind, block.mark) for block in message.blocks]
        if turns and message.role == "assistant" == turns[-1][0]:
            turns[-1][1].extend(blocks)  # one turn of ours is many items of the API
        else:
            turns.append((message.role, [*blocks]))
    system = [(block.kind, block.mark) for block in seen.system]
    return len(seen.tools), system, turns
