"""A fake provider in virtual time behind the real adapters, for tests of whole agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI

from agentkit.caching.options import CacheOptions
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Failure, FakeProvider, Reply
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import DEEPSEEK, ChatAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from tests.agentkit.models.hosted.anthropic.support import on_wire

T = TypeVar("T")
Pieces = list[tuple[str, str]]
PROVIDERS = ("anthropic", "openai", "deepseek", "gemini")


class HostedWorld:
    """One provider, one client, one model."""

    def __init__(
        self, respond: Callable[[Ask], Reply | Failure], provider: str = "anthropic"
    ) -> None:
        self.time = VirtualTime()
        self.fake = FakeProvider(time=self.time, respond=respond)
        self._http = httpx2.AsyncClient(transport=self.fake.transport(), timeout=None)
        self.adapter = _adapter(provider, self._http, self.time)
        self.sent: list[tuple[bytes, ...]] = []
        """The stable pieces of each request, in the provider's cache order."""
        _watch(self.adapter, self.sent)
        self.model: HostedModel[Any] = HostedModel(
            self.adapter, cache=CacheOptions(), time=self.time
        )

    def another_model(self, provider: str) -> HostedModel[Any]:
        """Another provider's model in the same world."""
        adapter = _adapter(provider, self._http, self.time)
        return HostedModel(adapter, cache=CacheOptions(), time=self.time)

    @property
    def wires(self) -> list[Pieces]:
        """Requests to Anthropic as its cache reads them: in its order, without marks."""
        return [on_wire(body) for body in self.fake.requests]

    @property
    def served(self) -> list[Served]:
        """What became of the requests; none may be refused."""
        served = [each for each in self.fake.served if isinstance(each, Served)]
        assert len(served) == len(self.fake.records), [each.error for each in self.fake.records]
        return served

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work in virtual time."""

        async def driven() -> T:
            async with self._http:
                return await self.time.drive(_coroutine(work))

        return asyncio.run(driven())


def hit(served: Served) -> float:
    """The share of the prompt that was read from the cache."""
    return served.read / served.split.total


def _adapter(provider: str, http: httpx2.AsyncClient, time: VirtualTime) -> Any:
    match provider:
        case "anthropic":
            client = AsyncAnthropic(api_key="k", base_url="http://fake", http_client=http)
            thinks = AnthropicOptions(thinking="adaptive")
            return AnthropicAdapter("claude-sonnet-5-5", client=client, options=thinks)
        case "openai":
            openai = AsyncOpenAI(api_key="k", base_url="http://fake/v1", http_client=http)
            return ResponsesAdapter("gpt-6.1-sol", client=openai)
        case "deepseek":
            openai = AsyncOpenAI(api_key="k", base_url="http://fake/deepseek", http_client=http)
            return ChatAdapter("deepseek-flash", profile=DEEPSEEK, client=openai)
        case _:
            options = HttpOptions(base_url="http://fake", httpx_async_client=http)
            gemini = Client(vertexai=False, api_key="k", http_options=options)
            return GeminiAdapter("gemini-3.8-flash", client=gemini, time=time)


def _watch(adapter: Any, sent: list[tuple[bytes, ...]]) -> None:
    body = adapter.body

    def watched(laid_out: Any, plan: Any, request: ModelRequest) -> Any:
        sent.append(laid_out.stable)
        return body(laid_out, plan, request)

    adapter.body = watched


async def _coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
