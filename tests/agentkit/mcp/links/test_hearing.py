"""Hearing of changes in the modern protocol: the stream is asked for, and again when it drops."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import MCPError
from mcp.client import subscriptions
from mcp.server import MCPServer

from agentkit.toolset import McpServer
from agentkit.toolset.mcp.links import hearing
from agentkit.toolset.mcp.links.link import McpLink

pytestmark = pytest.mark.timeout(60)


class Streams:
    """Stands for the server's streams: each entry is how the next one goes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcomes: list[Any]) -> None:
        self.outcomes = outcomes
        self.now_s = 0.0
        self.pauses: list[float] = []
        self.gaps: list[set[str]] = []
        self.is_hearing = asyncio.Event()
        monkeypatch.setattr(subscriptions, "listen", self.listen)

    @asynccontextmanager
    async def listen(self, session: Any, **wanted: bool) -> Any:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        honored, lasted_s, is_lost = outcome
        yield Stream(self, SimpleNamespace(**{**wanted, **honored}), lasted_s, is_lost)

    async def pause(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        if not self.outcomes:
            raise EOFError

    async def listen_on(self) -> None:
        await hearing.keep_listening(
            None,  # type: ignore[arg-type]
            frozenset(["tools", "resources"]),
            lambda wanted: self.gaps.append(set(wanted)),
            self.is_hearing,
            self.pause,
            lambda: self.now_s,
        )


class Stream:
    """One stream, which ends after a while without an event."""

    def __init__(self, streams: Streams, honored: Any, lasted_s: float, is_lost: bool) -> None:
        self.honored = honored
        self._streams = streams
        self._lasted_s = lasted_s
        self._is_lost = is_lost

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> object:
        self._streams.now_s += self._lasted_s
        raise subscriptions.SubscriptionLost("gone") if self._is_lost else StopAsyncIteration


async def test_a_stream_that_drops_is_opened_again_and_what_may_be_missed_reported(monkeypatch):
    streams = Streams(monkeypatch, [({}, 5, True), ({}, 5, False), ({}, 5, True)])
    with pytest.raises(EOFError):
        await streams.listen_on()
    assert streams.gaps == [{"tools", "resources"}] * 2
    assert streams.pauses == [1, 2, 4]
    assert streams.is_hearing.is_set()


async def test_after_a_stream_that_lasted_the_pause_is_short_again(monkeypatch):
    failure = MCPError(code=-32000, message="closed")
    streams = Streams(monkeypatch, [failure, failure, ({}, 300, True), failure])
    with pytest.raises(EOFError):
        await streams.listen_on()
    assert streams.pauses == [1, 2, 1, 2]
    assert streams.gaps == []


async def test_who_refuses_to_tell_is_not_asked_again(monkeypatch):
    streams = Streams(monkeypatch, [MCPError(code=-32601, message="Method not found")])
    await streams.listen_on()
    assert streams.is_hearing.is_set()


async def test_only_what_the_server_agreed_to_tell_is_listened_for(monkeypatch):
    only_tools = {"resources_list_changed": None}
    nothing = {"tools_list_changed": None, "resources_list_changed": None}
    streams = Streams(
        monkeypatch, [(only_tools, 5, True), (only_tools, 5, True), (nothing, 5, True)]
    )
    await streams.listen_on()
    assert streams.gaps == [{"tools"}, set()]


async def test_a_lost_stream_of_a_real_server_is_followed_by_a_word_of_possible_changes(
    serve, honest_server, monkeypatch
):
    """The server ends the stream; the link opens another, and says that something may be new."""
    monkeypatch.setattr("agentkit.toolset.mcp.links.backoff._FIRST_S", 0.05)
    server: MCPServer = honest_server()
    async with serve(server.streamable_http_app()) as address, asyncio.timeout(30):
        deadline = asyncio.get_running_loop().time() + 20
        link = await McpLink.open(McpServer(alias="far", url=f"{address}/mcp"), "auto", deadline)
        assert link.announces_changes
        assert not link.list_changed.is_set()
        listen = server._lowlevel_server.get_request_handler("subscriptions/listen")
        listen.handler.close()
        await link.list_changed.wait()
        assert link.is_alive
        await link.close()
