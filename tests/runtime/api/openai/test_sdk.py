"""The compatibility suite: everything in `cases`, asked by the official client in every way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import openai
import pytest
import pytest_asyncio

from tests.runtime.api.openai import told
from tests.runtime.api.openai.cases import CHAT, RESPONSES, USER
from tests.runtime.api.serving import Served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest_asyncio.fixture
async def async_client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"{served.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("way", told.CHAT_SYNC)
@pytest.mark.parametrize("name", CHAT)
def test_a_chat_is_told(client: openai.OpenAI, name: str, way: told.Sync) -> None:
    fields, expected = CHAT[name]

    assert way(client, {"model": "scripted", "messages": [USER], **fields}) == expected


@pytest.mark.parametrize("name", CHAT)
async def test_a_chat_is_told_to_the_async_client(
    async_client: openai.AsyncOpenAI, name: str
) -> None:
    fields, expected = CHAT[name]

    asked = {"model": "scripted", "messages": [USER], **fields}
    found = await told.chat_chunks(async_client, asked)
    assert found == expected


@pytest.mark.parametrize("way", told.RESPONSE_SYNC)
@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_is_told(client: openai.OpenAI, name: str, way: told.Sync) -> None:
    fields, expected = RESPONSES[name]

    assert way(client, {"model": "scripted", "input": "hello", **fields}) == expected


@pytest.mark.parametrize("name", RESPONSES)
async def test_a_response_is_told_to_the_async_client(
    async_client: openai.AsyncOpenAI, name: str
) -> None:
    fields, expected = RESPONSES[name]

    asked = {"model": "scripted", "input": "hello", **fields}
    found = await told.response_events(async_client, asked)
    assert found == expected
