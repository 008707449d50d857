"""A fake provider in a time of its own, and the official clients in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI

from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider


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


@pytest.fixture
def anthropic_of(http: httpx2.AsyncClient) -> Callable[[str], AsyncAnthropic]:
    """A client for an API key."""

    def client(key: str) -> AsyncAnthropic:
        return AsyncAnthropic(api_key=key, base_url="http://fake", max_retries=0, http_client=http)

    return client


@pytest.fixture
def anthropic(anthropic_of: Callable[[str], AsyncAnthropic]) -> AsyncAnthropic:
    return anthropic_of("key")


@pytest.fixture
def openai(http: httpx2.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="key", base_url="http://fake/v1", max_retries=0, http_client=http)


@pytest.fixture
def deepseek(http: httpx2.AsyncClient) -> AsyncOpenAI:
    url = "http://fake/deepseek"
    return AsyncOpenAI(api_key="key", base_url=url, max_retries=0, http_client=http)


@pytest.fixture
def gemini(http: httpx2.AsyncClient) -> genai.Client:
    options = types.HttpOptions(base_url="http://fake", httpx_async_client=http)
    return genai.Client(api_key="key", http_options=options)
