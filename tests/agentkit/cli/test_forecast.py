"""What `agentkit plan` foretells is what the fake provider bills: two ways to the same numbers.

The forecast comes from our layouts and planner; the fake reads the finished bytes, as they come
from the official client, by what the APIs' own pages say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI

from agentkit import Agent, tool
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.cli.plan.forecast import forecasts
from agentkit.cli.plan.load import team_of
from agentkit.cli.plan.turns import Sizes
from agentkit.context import Document
from agentkit.fake import FakeProvider
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import ChatAdapter
from agentkit.models.hosted.openai_chat.profiles import PROFILES
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter
from agentkit.testing import ScriptedModel


class Desk(Agent[None, str]):
    """You answer currency questions."""

    rules = "Be brief and right. " * 900
    knowledge = (Document(uri="rates", text="rates " * 600),)

    @tool
    def convert(self, usd: float, currency: str) -> str:
        """Convert dollars."""
        return ""

    def volatile(self, turn: int) -> str:
        return f"This is turn {turn}."


class Recorder:
    """An adapter that keeps the bodies it finished."""

    def __init__(self, adapter: Adapter[Any]) -> None:
        self._adapter = adapter
        self.bodies: list[Any] = []

    def body(self, *arguments: Any) -> Any:
        self.bodies.append(self._adapter.body(*arguments))
        return self.bodies[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)


def claude(http: httpx2.AsyncClient, _: VirtualTime) -> Adapter[Any]:
    client = AsyncAnthropic(api_key="k", base_url="http://fake", max_retries=0, http_client=http)
    return AnthropicAdapter("claude-sonnet-5-5", client=client)


def openai(http: httpx2.AsyncClient, path: str = "/v1") -> AsyncOpenAI:
    url = f"http://fake{path}"
    return AsyncOpenAI(api_key="k", base_url=url, max_retries=0, http_client=http)


def gemini(http: httpx2.AsyncClient, time: VirtualTime) -> Adapter[Any]:
    options = types.HttpOptions(base_url="http://fake", httpx_async_client=http)
    client = genai.Client(api_key="k", http_options=options)
    return GeminiAdapter("gemini-3.8-flash", client=client, time=time)


ADAPTERS: dict[str, Callable[[httpx2.AsyncClient, VirtualTime], Adapter[Any]]] = {
    "anthropic": claude,
    "openai": lambda http, _: ResponsesAdapter("gpt-6-sol", client=openai(http)),
    "openai, earlier": lambda http, _: ResponsesAdapter("gpt-5.4", client=openai(http)),
    "openai chat": lambda http, _: ChatAdapter(
        "gpt-6-sol", profile=PROFILES["openai"], client=openai(http)
    ),
    "deepseek": lambda http, _: ChatAdapter(
        "deepseek-flash", profile=PROFILES["deepseek"], client=openai(http, "/deepseek")
    ),
    "gemini": gemini,
}


@pytest.mark.parametrize("name", ADAPTERS)
async def test_a_run_reads_and_writes_at_the_fake_what_was_foretold(name: str) -> None:
    """Within 1 %: chat messages have a few bytes that no API says how to count."""
    time = VirtualTime()
    fake = FakeProvider(time=time)
    planned = await team_of(Desk(model=ScriptedModel([])), connect=False)
    async with httpx2.AsyncClient(transport=fake.transport()) as http:
        recorder = Recorder(ADAPTERS[name](http, time))
        sizes = Sizes(turns=6)
        (forecast,) = forecasts(planned, {name: HostedModel(recorder)}, sizes, now=time.now())
        assert forecast.error is None
        for body in recorder.bodies:
            async for _ in recorder.stream(body):
                pass
            await time.advance(sizes.gap_s)
    served = [each for each in fake.served if isinstance(each, Served)]
    assert len(served) == sizes.turns
    for row, each in zip(forecast.turns, served, strict=True):
        slack = each.split.total // 100
        assert abs(row.split.total - each.split.total) <= slack
        assert abs(row.split.read - each.read) <= max(slack, 128 if "earlier" in name else 0)
        assert abs(row.split.written - each.split.written) <= slack
    assert served[-1].read > served[-1].split.total * 0.5
