"""Against the fake provider, which reads the API by itself: what is cached, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx2
import pytest
from google.genai import Client
from google.genai.types import HttpOptions

from agentkit.blocks import AssistantMessage, ToolMessage, ToolResult, UserMessage
from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.plan import CachedFront
from agentkit.caching.plan.planner import plan as place
from agentkit.caching.policy import gemini_policy
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.context import Context
from agentkit.events import Turn
from agentkit.fake import FakeProvider
from agentkit.folding import fold
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.gemini import GeminiAdapter
from tests.agentkit.models.hosted.gemini.talk import (
    FRONT,
    MODEL,
    TOOLSET,
    events_of,
    long_front,
    plan,
    request,
)


@dataclass
class Run:
    """One run of an agent, turn by turn."""

    fake: FakeProvider
    adapter: GeminiAdapter
    context: Context

    async def ask(self, text: str | None = None, *, object_ttl_s: int | None = None) -> Turn:
        if text is not None:
            self.context = self.context.append(UserMessage.of(text))
        wanted = request(self.context)
        layout = self.adapter.layout(wanted)
        end = len(layout.cache_request.tools) + len(layout.cache_request.system)
        front = None if object_ttl_s is None else CachedFront(end=end, ttl_s=object_ttl_s)
        body = self.adapter.body(layout, plan(layout, cached_front=front), wanted)
        turn = fold(await events_of(self.adapter.stream(body)))
        self.context = self.context.append(turn.message)
        return turn

    def answer(self, turn: Turn) -> None:
        results = (ToolResult(call_id=c.id, name=c.name, content="3") for c in turn.message.calls)
        self.context = self.context.append(ToolMessage(tuple(results)))


@pytest.fixture
def run() -> Run:
    fake = FakeProvider(time=VirtualTime())
    http = httpx2.AsyncClient(transport=fake.transport())
    options = HttpOptions(base_url="http://fake", httpx_async_client=http)
    client = Client(vertexai=False, api_key="key", http_options=options)
    adapter = GeminiAdapter(MODEL, client=client, time=fake.time)
    return Run(fake, adapter, Context(*long_front()))


async def test_each_turn_reads_what_the_one_before_sent(run: Run) -> None:
    first = await run.ask('/think well\n/say one\n/call add {"a":1,"b":2}')
    run.answer(first)
    second = await run.ask()
    third = await run.ask("/say thanks")

    assert first.finish == "tool_calls"
    assert first.usage.cache_read_tokens == 0
    assert second.usage.cache_read_tokens == first.usage.input_tokens
    assert third.usage.cache_read_tokens == second.usage.input_tokens


async def test_the_cache_sees_the_blocks_that_the_layout_says(run: Run) -> None:
    turn = await run.ask('/call add {"a":1,"b":2}')
    wanted = request(run.context)

    layout = run.adapter.layout(wanted)
    before_its_answer = [block.n_tokens for block in layout.cache_request.blocks][:-1]

    assert sum(before_its_answer) == turn.usage.input_tokens


async def test_later_turns_read_the_object_and_it_is_paid_by_the_hour(run: Run) -> None:
    time: Any = run.fake.time
    first = await run.ask("/say one", object_ttl_s=600)
    await time.advance(400)
    second = await run.ask("/say two", object_ttl_s=600)
    await time.advance(400)
    await run.adapter.aclose()

    (use,) = run.adapter.cached_contents.storage()
    assert first.usage.cache_read_tokens == second.usage.cache_read_tokens == use.created_tokens
    assert use.cost == run.fake.contents.cost()
    assert use.token_hours == use.created_tokens * Decimal(800) / 3_600
    assert all(isinstance(served, Served) for served in run.fake.served)


async def test_an_object_that_ended_behind_our_back_is_replaced(run: Run) -> None:
    await run.ask("/say one", object_ttl_s=600)
    run.fake.caches.gemini.delete("cachedContents/1", run.fake.tenant_of("key"))

    second = await run.ask("/say two", object_ttl_s=600)
    third = await run.ask("/say three", object_ttl_s=600)

    assert second.message.text == "two"
    assert second.usage.cache_read_tokens == 0
    (use,) = run.adapter.cached_contents.storage()
    assert use.objects == 2
    assert third.usage.cache_read_tokens == use.created_tokens / 2


async def test_a_front_that_the_api_finds_too_short_is_sent_in_full(run: Run) -> None:
    # About 3,000 tokens: more than half of the minimum, so only the API knows.
    run.context = Context(*long_front(2_400))

    turns = [await run.ask(f"/say {n}", object_ttl_s=600) for n in range(3)]

    assert [turn.message.text for turn in turns] == ["0", "1", "2"]
    assert run.adapter.cached_contents.storage() == ()


@pytest.mark.parametrize(
    ("front", "history", "is_wanted"),
    [
        (long_front(), "word", True),
        (FRONT, "word " * 50_000, False),
    ],
)
def test_the_planner_wants_an_object_for_a_long_front_and_not_for_a_long_history(
    front: tuple[Any, ...], history: str, is_wanted: bool
) -> None:
    """C83: the planner's gate looks at the front that the object would hold."""
    adapter, time = GeminiAdapter(MODEL), VirtualTime()
    wanted: ModelRequest = request(Context(*front, UserMessage.of(history)), TOOLSET)
    layout = adapter.layout(wanted)
    draft = Draft(request=layout.cache_request, shared=layout.shared, implicit_share=Decimal(0))

    planned = place(draft, gemini_policy(MODEL, time.now().date()), Written(), time.now())

    assert (planned.cached_front is not None) is is_wanted
    assert (adapter.body(layout, planned, wanted).front is not None) is is_wanted


async def test_a_turn_of_the_fake_comes_back_as_it_was(run: Run) -> None:
    turn = await run.ask('/think deep\n/call add {"a":1}\n/call add {"b":2}')
    run.answer(turn)
    await run.ask()

    assert isinstance(turn.message, AssistantMessage)
    assert [block.kind for block in turn.message.blocks] == [
        "thinking",
        "vendor_item",
        "tool_call",
        "tool_call",
    ]
    assert run.fake.requests[1].count(b"thoughtSignature") == 1
