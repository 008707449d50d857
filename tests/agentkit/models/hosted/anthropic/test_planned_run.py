"""Runs through planner, adapter and official client against the simulated provider.

The provider reads the requests by rules of its own, so what it reads and writes is evidence.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic

from agentkit.blocks import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.draft import Draft
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import anthropic_policy
from agentkit.caching.simulate import Served, SimulatedAnthropic
from agentkit.caching.times import VirtualTime
from agentkit.context import Context
from agentkit.errors import RequestRefused
from agentkit.events import Turn
from agentkit.fake import Ask, FakeProvider, Reply
from agentkit.fake import Call as FakeCall
from agentkit.folding import fold
from agentkit.models.base import ModelRequest, Reuse
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.anthropic.layout import AnthropicLayout
from tests.agentkit.models.hosted.anthropic.support import LABEL, MODEL, ask, front, marks_on_wire

LONG = "The paper says many things. " * 200


class Run:
    """Plans and sends requests as the hosted model does, with a shadow of the provider's cache."""

    def __init__(
        self, model: str, respond: Callable[[Ask], Reply], options: AnthropicOptions | None = None
    ) -> None:
        self.time = VirtualTime()
        self.fake = FakeProvider(time=self.time, respond=respond)
        self.client = AsyncAnthropic(
            api_key="any",
            base_url="http://fake",
            http_client=httpx2.AsyncClient(transport=self.fake.transport()),
        )
        self.adapter = AnthropicAdapter(model, client=self.client, options=options)
        self.shadow = SimulatedAnthropic(clock=self.time)
        self.plans: list[CachePlan] = []

    def plan(self, layout: AnthropicLayout) -> CachePlan:
        now = self.time.now()
        draft = Draft(
            request=layout.cache_request, shared=layout.shared, n_volatile=layout.n_volatile
        )
        policy = anthropic_policy(self.adapter.model, now.date())
        return plan(draft, policy, self.shadow.written(layout.cache_request), now)

    async def turn(self, request: ModelRequest) -> Turn:
        layout = self.adapter.layout(request)
        planned = self.plan(layout)
        body = self.adapter.body(layout, planned, request)
        events = [event async for event in self.adapter.stream(body)]
        assert isinstance(self.shadow.request(planned.applied(layout.cache_request)), Served)
        self.plans.append(planned)
        return fold(events)


def works_for(n_turns: int) -> Callable[[Ask], Reply]:
    """A model that thinks and calls two tools in each turn, and then answers."""

    def respond(asked: Ask) -> Reply:
        if asked.n_turns >= n_turns:
            return Reply(text="Done.")
        calls = (
            FakeCall("search", f'{{ "query":  "{asked.n_turns}" }}'),
            FakeCall("read", f'{{"path":"{asked.n_turns}.md"}}'),
        )
        return Reply(thinking=f"Thought {asked.n_turns}.", text="I look.", calls=calls)

    return respond


def results(turn: Turn, *, image: bool = False) -> ToolMessage:
    found = Image.of_bytes(b"png", "image/png")
    return ToolMessage(
        tuple(
            ToolResult(
                call_id=call.id,
                name=call.name,
                content=LONG,
                is_error=index > 0,
                attachments=(found,) if image and index == 0 else (),
            )
            for index, call in enumerate(turn.message.calls)
        )
    )


@pytest.mark.parametrize("model", [MODEL, "claude-opus-5", "claude-haiku-4-5"])
@pytest.mark.parametrize("volatile", [None, "It is noon."])
async def test_a_run_reads_all_that_it_sent_before(model: str, volatile: str | None) -> None:
    run = Run(model, works_for(6), AnthropicOptions(thinking="adaptive"))
    context = front().append(UserMessage.of(LONG * 4))
    turns: list[Turn] = []
    while not turns or turns[-1].message.calls:
        # The text for one request is another in each.
        text = volatile and f"{volatile} {len(turns)}"
        turns.append(await run.turn(ask(context.with_volatile(text))))
        context = context.append(turns[-1].message)
        if turns[-1].message.calls:
            context = context.append(results(turns[-1]))
        await run.time.advance(20)
    assert len(turns) == 7
    assert all(isinstance(served, Served) for served in run.fake.served)
    for earlier, turn, planned in zip(turns, turns[1:], run.plans[1:], strict=False):
        assert earlier.usage.input_tokens is not None
        assert earlier.usage.cache_read_tokens is not None
        assert earlier.usage.cache_write_tokens is not None
        stored = earlier.usage.cache_read_tokens + earlier.usage.cache_write_tokens
        assert stored > 0
        assert turn.usage.cache_read_tokens == stored
        assert planned.predicted.split.read == turn.usage.cache_read_tokens
    for body in run.fake.requests:
        assert len(marks_on_wire(body)) <= 4


async def test_the_estimates_of_the_layout_are_the_counts_of_the_provider() -> None:
    """The simulated provider counts as we estimate; so each token that differs is a block that one
    of us reads differently."""
    run = Run(MODEL, works_for(3), AnthropicOptions(effort="low"))
    context = front().append(UserMessage.of("Look at ", Image.of_bytes(b"png", "image/png"), LONG))
    turn = await run.turn(ask(context))
    for _ in range(2):
        context = context.append(turn.message, results(turn))
        turn = await run.turn(ask(context))
    for planned, served in zip(run.plans, run.fake.served, strict=True):
        assert isinstance(served, Served)
        assert served.split == planned.predicted.split


async def test_what_the_model_wrote_is_sent_back_as_it_wrote_it() -> None:
    run = Run(MODEL, works_for(2), AnthropicOptions(thinking="adaptive"))
    context = front().append(UserMessage.of(LONG))
    turn = await run.turn(ask(context))
    assert [block.kind for block in turn.message.blocks] == [
        "thinking",
        "text",
        "tool_call",
        "tool_call",
    ]
    await run.turn(ask(context.append(turn.message, results(turn, image=True))))
    sent_back = json.loads(run.fake.requests[1])["messages"][1]["content"]
    assert sent_back[0]["thinking"] == "Thought 0."
    assert sent_back[0]["signature"]
    for call in turn.message.calls:
        assert f'"input":{call.arguments}}}'.encode() in run.fake.requests[1]


async def test_a_side_call_of_the_run_reads_and_does_not_write() -> None:
    run = Run(MODEL, works_for(1))
    context = front().append(UserMessage.of(LONG))
    turn = await run.turn(ask(context))
    side = context.append(turn.message, results(turn), UserMessage.of("Sum up."))
    summed = await run.turn(ask(side, reuse=Reuse(again=False, front_again=False)))
    assert summed.usage.cache_read_tokens
    assert summed.usage.cache_write_tokens == 0


@pytest.mark.parametrize(
    ("last", "case"),
    [
        ((Text(LONG), Thinking("Hm.", "sig", LABEL)), "ends in thinking"),
        ((Text(LONG), VendorItem(source=LABEL, data='{"type":"redacted_thinking"}')), "redacted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_turn_that_ends_in_thinking_is_marked_before_it(last: Any, case: str) -> None:
    """C31: the planner walks back to a block that takes the mark, and the API takes the request."""
    run = Run(MODEL, works_for(0))
    context = front().append(UserMessage.of(LONG), AssistantMessage(last))
    request = ask(context.with_volatile("Go on."))
    await run.turn(request)
    assert isinstance(run.fake.served[0], Served)
    assert max(marks_on_wire(run.fake.requests[0])) == 6, case


async def test_calls_of_code_and_their_results_are_not_marked() -> None:
    """C32: a history that ends in them is marked before them, and the API takes the request."""
    run = Run(MODEL, works_for(0))
    caller = '{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}'
    call = ToolCall(id="c1", name="search", arguments="{}")
    turn = AssistantMessage((Text(LONG), call, VendorItem(source=LABEL, data=caller)))
    found = ToolMessage((ToolResult(call_id="c1", name="search", content=LONG),))
    await run.turn(ask(front().append(UserMessage.of(LONG), turn, found)))
    assert isinstance(run.fake.served[0], Served)
    marks = marks_on_wire(run.fake.requests[0])
    assert max(marks) == 6, "the text before the call"


async def test_a_touch_keeps_the_prefix_alive() -> None:
    run = Run(MODEL, works_for(1))
    request = ask(front().append(UserMessage.of(LONG)))
    layout = run.adapter.layout(request)
    planned = run.plan(layout)
    body = run.adapter.body(layout, planned, request)
    first = fold([event async for event in run.adapter.stream(body)])
    for _ in range(3):
        await run.time.advance(280)
        event = await run.adapter.touch(body)
        assert event is not None
        assert event.kind == "usage"
        assert event.usage.cache_read_tokens == first.usage.cache_write_tokens
        assert event.usage.cache_write_tokens == 0
        assert event.usage.output_tokens == 0


async def test_refusals_of_the_provider_come_as_ours() -> None:
    run = Run(MODEL, works_for(1))
    request = ask(Context(UserMessage.of("x")))
    layout = run.adapter.layout(request)
    body = run.adapter.body(layout, run.plan(layout), request)
    five = body.data.replace(b'"text":"x"}', b'"text":"x","cache_control":{"type":"x"}}')
    broken: Any = type(body)(
        **{name: getattr(body, name) for name in body.__dataclass_fields__} | {"data": five}
    )
    with pytest.raises(RequestRefused):
        async for _ in run.adapter.stream(broken):
            pass
