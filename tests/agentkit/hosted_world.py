"""A fake provider in virtual time behind the Anthropic adapter, for tests of whole agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from anthropic import AsyncAnthropic

from agentkit.caching.options import CacheOptions
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Failure, FakeProvider, Reply
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from tests.agentkit.models.hosted.anthropic.support import on_wire

T = TypeVar("T")
Pieces = list[tuple[str, str]]


class HostedWorld:
    """One provider, one client, one model."""

    def __init__(self, respond: Callable[[Ask], Reply | Failure]) -> None:
        self.time = VirtualTime()
        self.fake = FakeProvider(time=self.time, respond=respond)
        self._http = httpx2.AsyncClient(transport=self.fake.transport(), timeout=None)
        client = AsyncAnthropic(api_key="k", base_url="http://fake", http_client=self._http)
        self.adapter = AnthropicAdapter("claude-sonnet-5-5", client=client)
        self.model: HostedModel[Any] = HostedModel(
            self.adapter, cache=CacheOptions(), time=self.time
        )

    @property
    def wires(self) -> list[Pieces]:
        """The requests as the cache reads them: in its order, without marks."""
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


async def _coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
