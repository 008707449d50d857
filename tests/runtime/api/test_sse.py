"""Work that ends when the client goes away, over a hand-driven ASGI connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from agentkit_runtime.api.sse import ClientGone, EventStream, while_connected

BOUND_S = 10.0


class Connection:
    """The two ends that an ASGI server gives to an application."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.first_body = asyncio.Event()
        self._gone = asyncio.Event()

    def vanish(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.first_body.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Source:
    """Events; after the last one it ends, or waits for ever."""

    def __init__(self, *events: bytes, ends: bool) -> None:
        self._events = list(events)
        self._ends = ends
        self.n_closed = 0

    def close(self) -> None:
        self.n_closed += 1

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield event
        if not self._ends:
            await asyncio.Event().wait()


async def run(source: Source, connection: Connection, spec_version: str = "2.3") -> None:
    scope = {"type": "http", "asgi": {"spec_version": spec_version}}
    response = EventStream(aiter(source), on_close=source.close)
    async with asyncio.timeout(BOUND_S):
        await response(scope, connection.receive, connection.send)


async def test_a_stream_that_ends_is_sent_whole_and_closed_once() -> None:
    connection, source = Connection(), Source(b"a", b"b", ends=True)

    await run(source, connection)

    assert connection.body == b"ab"
    assert connection.sent[-1]["more_body"] is False
    assert source.n_closed == 1


@pytest.mark.parametrize("spec_version", ["2.0", "2.3", "2.4"])
async def test_a_client_that_vanishes_ends_a_silent_stream(spec_version: str) -> None:
    """While the model computes, nothing is sent; only the connection can tell."""
    connection, source = Connection(), Source(b"a", ends=False)
    stream = asyncio.create_task(run(source, connection, spec_version))
    await asyncio.wait_for(connection.first_body.wait(), BOUND_S)
    assert source.n_closed == 0

    connection.vanish()
    await asyncio.wait_for(stream, BOUND_S)

    assert source.n_closed == 1


async def test_a_send_that_fails_ends_the_stream() -> None:
    class Broken(Connection):
        async def send(self, message: Message) -> None:
            raise OSError("broken pipe")

    source = Source(b"a", ends=False)

    await run(source, Broken())

    assert source.n_closed == 1


async def test_a_source_that_fails_is_closed_and_its_error_is_seen() -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"a"
        raise RuntimeError("ours")

    source, connection = Source(ends=True), Connection()
    response = EventStream(failing(), on_close=source.close)

    with pytest.raises(RuntimeError, match="ours"):
        await response({"type": "http"}, connection.receive, connection.send)

    assert source.n_closed == 1


async def test_work_that_finishes_gives_its_result() -> None:
    async def work() -> int:
        return 5

    assert await while_connected(Connection().receive, work()) == 5


async def test_work_is_cancelled_and_over_when_the_client_is_gone() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    connection = Connection()
    connection.vanish()
    with pytest.raises(ClientGone):
        await while_connected(connection.receive, work())

    assert ended.is_set()


async def test_cancelling_the_handler_cancels_the_work() -> None:
    ended, begun = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    handler = asyncio.create_task(while_connected(Connection().receive, work()))
    await asyncio.wait_for(begun.wait(), BOUND_S)
    handler.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handler

    assert ended.is_set()
