"""The whole path: laid out, planned, sent by the official client, served by a simulated cache."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from agentkit.blocks import Text, UserMessage
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.events import Turn
from agentkit.fake import FakeProvider
from agentkit.folding import fold
from agentkit.models.base import ModelRequest, Reuse
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    OPENAI,
    OPENROUTER,
    ChatAdapter,
    ChatLayout,
    Profile,
)
from tests.agentkit.models.hosted.weather import RESULTS, TOOLSET, request

RULES = SystemText(SystemPart.RULES, "Follow the rules. " * 400)
FRONT = Context(RULES, ToolList(TOOLSET.bytes), SystemText(SystemPart.ROLE, "You look. " * 200))


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def fake(time: VirtualTime) -> FakeProvider:
    return FakeProvider(time=time)


@pytest.fixture
async def http(fake: FakeProvider) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as client:
        yield client


def model(
    http: httpx2.AsyncClient, time: VirtualTime, profile: Profile, name: str
) -> HostedModel[ChatLayout]:
    path = "deepseek" if profile is DEEPSEEK else "v1"
    client = AsyncOpenAI(api_key="k", base_url=f"http://fake/{path}", http_client=http)
    return HostedModel(ChatAdapter(name, profile=profile, client=client), time=time)


def asked(context: Context, turn: int, **changes: Any) -> ModelRequest:
    return request(context, request_id=f"r-{turn}", reuse=Reuse(turns_left=9 - turn), **changes)


async def ask(model: HostedModel[ChatLayout], made: ModelRequest) -> Turn:
    return fold([event async for event in model.stream(made)])


async def run(
    model: HostedModel[ChatLayout], time: VirtualTime, *, turns: int, run_id: str = "r"
) -> list[Turn]:
    """A run with a tool call in each turn, a minute apart."""
    context, found = FRONT, []
    for number in range(turns):
        question = UserMessage.of(f'Turn {number}.\n/call weather {{ "city":"{number}" }}')
        context = context.append(question).with_volatile(f"It is minute {number}.")
        turn = await ask(model, asked(context, number, run_id=run_id))
        found.append(turn)
        (call,) = turn.message.calls
        assert call.arguments == f'{{ "city":"{number}" }}'
        results = tuple(
            type(each)(call_id=call.id, name=call.name, content="x") for each in RESULTS.results[:1]
        )
        context = context.append(turn.message, type(RESULTS)(results))
        await time.advance(60)
    return found


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        (OPENAI, "gpt-6-sol"),
        (OPENAI, "gpt-5.4"),
        (OPENROUTER, "anthropic/claude-sonnet-5-5"),
    ],
    ids=["openai marks", "openai intervals", "claude through a gateway"],
)
async def test_each_turn_reads_what_the_turns_before_sent(
    http: httpx2.AsyncClient,
    fake: FakeProvider,
    time: VirtualTime,
    profile: Profile,
    name: str,
) -> None:
    """C89: also Claude behind a gateway, whose marks are in another field."""
    turns = await run(model(http, time, profile, name), time, turns=5)

    served = [each for each in fake.served if isinstance(each, Served)]
    assert len(served) == 5
    assert served[0].read == 0
    for before, after, turn in zip(served, served[1:], turns[1:], strict=False):
        # All but the volatile tail of the request before; intervals of up to 256 tokens.
        assert after.read >= before.split.total - 300
        assert turn.usage.cache_read_tokens == after.read
        assert turn.usage.input_tokens == after.split.total
    for turn in turns:
        assert turn.verdict is not None
        assert turn.verdict.actual is not None
        assert turn.verdict.actual.read == turn.verdict.predicted.split.read
        assert turn.verdict.actual.total == turn.verdict.predicted.split.total
        assert turn.verdict.shortfall is None


async def test_another_run_of_the_agent_reads_the_front(
    http: httpx2.AsyncClient, time: VirtualTime
) -> None:
    hosted = model(http, time, OPENAI, "gpt-6-sol")
    await run(hosted, time, turns=2, run_id="one")

    (first, *_) = await run(hosted, time, turns=1, run_id="two")

    assert first.usage.cache_read_tokens is not None
    assert first.usage.input_tokens is not None
    assert first.usage.cache_read_tokens > 0.9 * first.usage.input_tokens


async def test_deepseek_reads_whole_units_of_a_run_without_volatile_text(
    http: httpx2.AsyncClient, fake: FakeProvider, time: VirtualTime
) -> None:
    hosted, context = model(http, time, DEEPSEEK, "deepseek-flash"), FRONT
    for number in range(3):
        context = context.append(UserMessage.of(f"/think hm\n/say answer {number}"))
        turn = await ask(hosted, asked(context, number, tenant="t"))
        context = context.append(turn.message)
        await time.advance(60)

    first, second, third = (each for each in fake.served if isinstance(each, Served))
    assert first.read == 0
    assert second.read >= first.split.total
    assert third.read >= second.split.total
    assert turn.usage.cache_read_tokens == third.read


async def test_a_mark_of_the_user_is_on_the_wire_beside_the_planned_ones(
    http: httpx2.AsyncClient, fake: FakeProvider, time: VirtualTime
) -> None:
    """C43: a mark that somebody set by hand reaches the server."""
    hosted = model(http, time, OPENAI, "gpt-6-sol")
    marked = UserMessage.of(Text("Keep this. " * 50, breakpoint="default"), "Now go.")
    await ask(hosted, asked(FRONT.append(marked), 0))

    parts = json.loads(fake.requests[-1])["messages"][-1]["content"]
    assert parts[0]["text"].startswith("Keep this.")
    assert parts[0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
