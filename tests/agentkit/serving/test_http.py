"""A served agent over HTTP: sessions, tokens, and who is turned away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client

from agentkit import Agent, ConfigurationError
from agentkit.serving import http_app, serve_mcp
from agentkit.serving.http import is_loopback
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.at_url import at_url
from tests.agentkit.clerks import Log
from tests.agentkit.serving.hanging import Hanging
from tests.agentkit.serving.test_approval import Person, clerk, text_of

TOKEN = "a-token-that-is-long-enough"
PROBE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def served(agent: Agent[Any, Any], **options: Any) -> AsyncGenerator[str, None]:
    """An agent that is served on the loopback interface; yields its URL."""
    async with at_url(http_app(serve_mcp(agent), **options)) as url:
        yield url


async def test_it_answers_over_http_with_progress(mode: str) -> None:
    agent = Agent(model=ScriptedModel(["Hello."]), name="desk", instructions="You answer.")
    told: list[str] = []

    async def progress(amount: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with served(agent) as url, Client(url, mode=mode, read_timeout_seconds=30) as one:
        result = await one.call_tool("ask_desk", {"prompt": "x"}, progress_callback=progress)
    assert text_of(result) == "Hello."
    assert told[-1] == "desk: done"


async def test_the_user_is_asked_over_http(mode: str) -> None:
    log, person = Log(), Person(decision="approve")
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Paid.")
    async with served(agent) as url:
        async with Client(
            url, mode=mode, elicitation_callback=person, read_timeout_seconds=30
        ) as one:
            result = await one.call_tool("ask_clerk", {"prompt": "Pay."})
    assert text_of(result) == "Paid."
    assert log.done == ["pay Ada 5"]


async def test_a_call_that_is_cancelled_over_http_ends_its_run(mode: str) -> None:
    model = Hanging()
    agent = Agent(model=model, name="desk", instructions="You answer.")
    async with served(agent) as url, Client(url, mode=mode, read_timeout_seconds=30) as one:
        call = asyncio.create_task(one.call_tool("ask_desk", {"prompt": "hang"}))
        await model.began.wait()
        call.cancel()
        await asyncio.wait([call])
        async with asyncio.timeout(10):
            await model.aborted.wait()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 421),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
    ],
    ids=["none", "wrong", "scheme", "host", "origin"],
)
async def test_who_has_no_token_or_comes_from_elsewhere_is_turned_away(
    headers: dict[str, str], status: int
) -> None:
    agent = Agent(model=ScriptedModel([]), name="desk", instructions="You answer.")
    async with served(agent, token=TOKEN, hosts=["agents.example"]) as url:
        async with httpx2.AsyncClient() as http:
            refused = await http.post(url, json=PROBE, headers=JSON | headers)
            assert refused.status_code == status
            good = {"Authorization": f"Bearer {TOKEN}", "Host": "agents.example"}
            allowed = await http.post(url, json=PROBE, headers=JSON | good)
            assert allowed.status_code not in (401, 403, 421)


async def test_without_a_token_only_this_machine_is_named() -> None:
    agent = Agent(model=ScriptedModel([]), name="desk", instructions="You answer.")
    async with served(agent) as url, httpx2.AsyncClient() as http:
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            refused = await http.post(url, json=PROBE, headers=JSON | headers)
            assert refused.status_code in (403, 421)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"token": "short"}, "the token has 5 characters"),
        ({"hosts": ["agents.example"]}, "give a token"),
    ],
)
def test_an_app_that_everybody_could_ask_is_not_made(options: dict[str, Any], problem: str) -> None:
    agent = Agent(model=ScriptedModel([]), name="desk", instructions="You answer.")
    with pytest.raises(ConfigurationError, match=problem):
        http_app(serve_mcp(agent), **options)


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org", "")))
