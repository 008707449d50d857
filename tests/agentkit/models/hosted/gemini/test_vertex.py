"""The same adapter on Vertex AI, and over several event loops."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from google.auth.credentials import Credentials
from google.auth.exceptions import RefreshError
from google.genai import Client
from google.genai.types import HttpOptions

from agentkit.caching.policy import Platform
from agentkit.caching.times import VirtualTime
from agentkit.errors import ConfigurationError, ModelError
from agentkit.models.hosted.gemini import GeminiAdapter, GeminiOptions
from tests.agentkit.models.hosted.gemini.talk import (
    MODEL,
    FakeServer,
    events_of,
    object_plan,
)
from tests.agentkit.models.hosted.gemini.test_cached_content import talk

HOME = "projects/p/locations/us-central1"
OPTIONS = GeminiOptions(platform=Platform.GOOGLE_CLOUD)


class Token(Credentials):
    """Credentials that need no network."""

    def __init__(self, token: str | None = "secret") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token = token

    def refresh(self, request: object) -> None:
        raise RefreshError("revoked")  # type: ignore[no-untyped-call]


def vertex(server: FakeServer, credentials: Credentials | None = None) -> GeminiAdapter:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(server))
    client = Client(
        vertexai=True,
        project="p",
        location="us-central1",
        credentials=credentials or Token(),
        http_options=HttpOptions(httpx_async_client=http),
    )
    return GeminiAdapter(MODEL, client=client, options=OPTIONS, time=VirtualTime())


async def test_the_finished_bytes_go_to_vertex_with_its_names_and_token() -> None:
    server = FakeServer()
    name = f"{HOME}/cachedContents/1"
    server.reply("create", httpx2.Response(200, json={"name": name}))
    adapter = vertex(server)
    body = object_plan(adapter, talk())

    await events_of(adapter.stream(body))
    assert await adapter.touch(body) is not None
    await adapter.aclose()

    created, sent, renewed, deleted = server.sent
    assert json.loads(created.content)["model"] == f"{HOME}/publishers/google/models/{MODEL}"
    assert created.url.path.endswith(f"/{HOME}/cachedContents")
    assert sent.url.path.endswith(f"/{HOME}/publishers/google/models/{MODEL}:streamGenerateContent")
    assert sent.headers["authorization"] == "Bearer secret"
    assert json.loads(sent.content)["cachedContent"] == name
    assert renewed.url.path.endswith(f"/{name}")
    assert deleted.url.path.endswith(f"/{name}")


async def test_credentials_that_were_revoked_are_no_reason_to_try_again() -> None:
    adapter = vertex(FakeServer(), Token(None))
    body = object_plan(adapter, talk())

    with pytest.raises(ModelError, match="no valid credentials") as caught:
        await events_of(adapter.stream(body))

    assert not caught.value.retryable


def test_each_run_may_have_an_event_loop_of_its_own() -> None:
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())
    for _ in range(2):
        asyncio.run(_send(adapter))

    assert len(server.bodies("create")) == 1
    assert [body["cachedContent"] for body in server.bodies("stream")] == ["cachedContents/1"] * 2


def test_an_object_that_a_dead_loop_was_making_does_not_hold_up_the_next_run() -> None:
    server = FakeServer()

    async def never(got: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError(got)

    server.reply("create", never)
    adapter = server.adapter(time=VirtualTime())

    async def cut_short() -> None:
        task = asyncio.create_task(_send(adapter))
        await server.got("create", 1)
        task.cancel()

    asyncio.run(cut_short())
    asyncio.run(_send(adapter))

    assert "cachedContent" in server.bodies("stream")[-1]


def test_only_googles_own_platforms_are_known() -> None:
    with pytest.raises(ConfigurationError, match="google-cloud"):
        GeminiOptions(platform=Platform.BEDROCK)


async def _send(adapter: GeminiAdapter) -> None:
    await events_of(adapter.stream(object_plan(adapter, talk())))
