"""Fallback models: who is asked, who stays, and when a conversation goes back."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from agentkit import (
    Agent,
    Context,
    Limits,
    ModelError,
    PriceUnknown,
    RequestRefused,
    Settings,
    UserMessage,
    tool,
)
from agentkit.errors import ConfigurationError, UnknownModel
from agentkit.events import ModelEvent, TextDelta, TurnDropped, TurnEnd
from agentkit.fake import Ask, Failure
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.folding import fold
from agentkit.models.base import ModelRequest
from agentkit.models.fallback import FallbackModel
from agentkit.models.hosted.model import HostedModel
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import Toolset
from tests.agentkit.hosted_world import HostedWorld, _adapter
from tests.agentkit.priced import PricedModel, UnpricedModel

BUSY = ModelError("busy", retryable=True)
NO_QUOTA = ModelError("no quota left")


def busy_for(seconds: float) -> ModelError:
    return ModelError("busy", retryable=True, retry_after_s=seconds)


class World:
    """Two models, a fallback of both, and a clock."""

    def __init__(self, first: Any, second: Any, **more: Any) -> None:
        self.first = first if isinstance(first, ScriptedModel) else ScriptedModel(first, label="a")
        self.second = (
            second if isinstance(second, ScriptedModel) else ScriptedModel(second, label="b")
        )
        self.now_s = 1_000.0
        self.model = FallbackModel([self.first, self.second], now_s=lambda: self.now_s, **more)

    async def ask(self, session: str = "s", **more: Any) -> str:
        """Ask once; return who answered, and what."""
        events = [event async for event in self.model.stream(request(session, **more))]
        turn = fold(events)
        return f"{turn.model}: {turn.message.text}"


def request(session: str = "s", **more: Any) -> ModelRequest:
    return ModelRequest(
        context=Context(UserMessage.of("word " * 200)),
        toolset=Toolset([]),
        agent="x",
        run_id=session,
        request_id="r",
        **more,
    )


@pytest.mark.parametrize("failure", [BUSY, NO_QUOTA, busy_for(600.0)])
async def test_the_next_model_is_asked_where_one_fails(failure: ModelError) -> None:
    world = World([failure], ["hello"])
    assert await world.ask() == "b: hello"


async def test_what_is_the_requests_fault_is_refused() -> None:
    world = World([RequestRefused("too long")], [])
    with pytest.raises(RequestRefused):
        await world.ask()
    assert world.second.calls == ()


async def test_a_conversation_stays_where_it_is_cached_and_a_new_one_begins_at_the_first() -> None:
    world = World([BUSY, "new"], ["one", "two", "three"], cool_down_s=60)
    assert [await world.ask(), await world.ask()] == ["b: one", "b: two"]
    world.now_s += 61
    assert await world.ask() == "b: three"
    assert await world.ask("other") == "a: new"


async def test_while_a_model_is_left_alone_new_conversations_begin_elsewhere() -> None:
    world = World([BUSY, "back"], ["one", "two"], cool_down_s=60)
    await world.ask()
    assert await world.ask("other") == "b: two"
    world.now_s += 60
    assert await world.ask("third") == "a: back"


async def test_after_so_long_without_a_request_nothing_is_lost_by_going_back() -> None:
    world = World([BUSY, "back"], ["one", "two"], cool_down_s=60, cache_s=300)
    await world.ask()
    world.now_s += 299
    assert await world.ask() == "b: two"
    world.now_s += 300
    assert await world.ask() == "a: back"


async def test_a_conversation_goes_back_at_once_where_its_rest_is_cheaper_there() -> None:
    class Dear(PricedModel):
        def prices(self) -> Any:
            found = super().prices()
            assert found.row is not None
            from dataclasses import replace

            rates = found.row.rates.scaled(Decimal(20))
            return replace(found, row=replace(found.row, rates=rates))

    cheap = PricedModel([BUSY, "back"], label="a")
    world = World(cheap, Dear(["one", "two"], label="b"), cool_down_s=60)
    assert await world.ask() == "b: one"
    world.now_s += 61
    assert await world.ask() == "a: back"

    world = World(PricedModel([BUSY], label="a"), PricedModel(["one", "two"], label="b"))
    await world.ask()
    world.now_s += 61
    assert await world.ask() == "b: two"


async def test_a_short_rate_limit_is_waited_out_once_and_then_the_next_is_asked() -> None:
    world = World([busy_for(3.0), busy_for(3.0)], ["hello"], patience_s=10)
    with pytest.raises(ModelError) as caught:
        await world.ask()
    assert caught.value.retry_after_s == 3.0
    assert await world.ask() == "b: hello"


async def test_if_all_fail_the_error_says_why_and_the_one_that_is_up_first_is_asked_next() -> None:
    world = World([ModelError("first"), "back"], [busy_for(30.0), "other"], cool_down_s=20)
    with pytest.raises(ModelError, match="all models failed: first; busy") as caught:
        await world.ask()
    assert (caught.value.retryable, caught.value.retry_after_s) == (True, 30.0)
    assert await world.ask() == "a: back"


class BreaksOff(ScriptedModel):
    """Says a word, and then fails where its script has a failure."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("half ")
        async for event in super().stream(request):
            yield event


async def test_half_an_answer_of_one_is_never_continued_by_another() -> None:
    first = BreaksOff([BUSY], label="a")
    second = ScriptedModel(["whole"], label="b")
    agent = Agent(model=FallbackModel([first, second]), instructions="x")
    async with agent.stream("Go.") as events:
        seen = [event async for event in events]
    dropped = next(event for event in seen if isinstance(event, TurnDropped))
    assert dropped.wait_s == 0
    ended = next(event for event in seen if isinstance(event, TurnEnd))
    assert (ended.turn.model, ended.turn.message.text) == ("b", "whole")
    assert events.result.output == "whole"
    assert [record.model for record in events.result.requests] == [
        "fallback(a, b)",
        "b",
    ]


async def test_the_prefix_is_the_same_whoever_answers() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    first = ScriptedModel([Call("look"), BUSY], label="a")
    second = ScriptedModel([Call("look"), "end"], label="b")
    agent = Agent(model=FallbackModel([first, second]), instructions="x", tools=[look])
    result = await agent.run("Go.")
    assert [record.model for record in result.requests] == ["a", "b", "b"]
    wires = [call.wire for call in (*first.calls, *second.calls)]
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(wires))


def test_nothing_of_one_vendor_is_sent_to_another() -> None:
    """C85: Anthropic fails in turn 2, and OpenAI goes on: no mark and no signature goes along."""

    def respond(ask: Ask) -> FakeReply | Failure:
        if ask.api == "messages" and ask.n_turns:
            return Failure(status=529)
        if ask.api == "messages":
            return FakeReply(thinking="hmm", calls=(FakeCall("look"),))
        return FakeReply(text="done")

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    world = HostedWorld(respond)
    openai: Any = HostedModel(_adapter("openai", world._http, world.time), time=world.time)
    agent = Agent(
        model=FallbackModel([world.model, openai]), instructions="Look. " * 500, tools=[look]
    )
    result = world.run(lambda: agent.run("Go."))
    assert result.output == "done"
    assert [record.model for record in result.requests] == [
        "anthropic:claude-sonnet-5-5",
        "openai:gpt-6.1-sol",
    ]
    last = world.fake.requests[-1]
    for word in (b"cache_control", b"signature", b"hmm", b"sig_"):
        assert word not in last
    assert json.loads(last)["model"] == "gpt-6.1-sol"
    assert result.cost is not None
    assert result.cost.unknown == 0


async def test_under_a_limit_on_money_every_model_that_may_answer_needs_a_price() -> None:
    models = [PricedModel(["hi"], label="a"), UnpricedModel([], label="b")]
    agent = Agent(model=FallbackModel(models), instructions="x")
    with pytest.raises(PriceUnknown, match="'b'"):
        await agent.run("Go.", limits=Limits(usd=1))
    models = [PricedModel([BUSY], label="a"), PricedModel(["hi"], label="b", usd="0.25")]
    agent = Agent(model=FallbackModel(models), instructions="x", settings=Settings(max_tokens=9))
    result = await agent.run("Go.", limits=Limits(usd=1))
    assert [str(use.used) for use in result.limits] == ["0.25"]


async def test_a_prefix_is_kept_alive_where_it_is_cached() -> None:
    kept: list[str] = []

    class Keeps(ScriptedModel):
        @asynccontextmanager
        async def kept_alive(self, request: ModelRequest, on_ping: Any) -> Any:
            kept.append(self.label)
            yield

    world = World(Keeps([BUSY], label="a"), Keeps(["one"], label="b"))
    async with world.model.kept_alive(request(), lambda *_: None):
        pass
    assert kept == []
    await world.ask()
    async with world.model.kept_alive(request(), lambda *_: None):
        pass
    assert kept == ["b"]


def test_model_strings_are_taken_and_wrong_settings_refused() -> None:
    model = FallbackModel(["anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol"])
    assert model.label == "fallback(anthropic:claude-sonnet-5-5, openai:gpt-6.1-sol)"
    assert model.prices().is_known
    assert model.siblings_start_together
    with pytest.raises(UnknownModel):
        FallbackModel(["openai:gpt-6.1-sol", "nobody:x"])
    with pytest.raises(ConfigurationError, match="at least two"):
        FallbackModel(["openai:gpt-6.1-sol"])
    with pytest.raises(ConfigurationError, match="at least two"):
        FallbackModel("openai:gpt-6.1-sol")
    with pytest.raises(ConfigurationError, match="named once"):
        FallbackModel(["openai:gpt-6.1-sol"] * 2)
    with pytest.raises(ConfigurationError, match="patience_s must be"):
        FallbackModel(["openai:gpt-6.1-sol", "local:smollm2"], patience_s=-1)
