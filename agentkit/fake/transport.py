"""In-process transport for the official clients: streams as a socket would, without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from agentkit.errors import MissingExtra

try:
    import httpx2
except ImportError as error:
    raise MissingExtra(
        "the transport needs httpx2, which is not installed; "
        'in a checkout run: pip install -c requirements.lock ".[anthropic]"'
    ) from error

_App = Callable[[Any, Any, Any], Awaitable[None]]


class FakeTransport(httpx2.AsyncBaseTransport, httpx2.BaseTransport):
    """Brings the requests of an `httpx2.AsyncClient` or `httpx2.Client` to an ASGI application.

    A part of a response is sent when the client takes it; a client that closes a response early,
    or is cancelled, is gone for the application. Errors of the application reach the client.
    """

    def __init__(self, app: _App) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return when the response begins."""
        body = await request.aread()
        connection = _Connection(self._app, request, body)
        try:
            status, headers = await connection.start()
        except BaseException:
            await connection.close()
            raise
        return httpx2.Response(status, headers=headers, stream=_AsyncStream(connection))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request from a thread without an event loop of its own."""
        body = request.read()
        loop = self._running_loop()

        async def begin() -> tuple[_Connection, int, list[tuple[bytes, bytes]]]:
            connection = _Connection(self._app, request, body)
            try:
                return connection, *(await connection.start())
            except BaseException:
                await connection.close()
                raise

        connection, status, headers = asyncio.run_coroutine_threadsafe(begin(), loop).result()
        return httpx2.Response(status, headers=headers, stream=_SyncStream(connection, loop))

    def close(self) -> None:
        """Stop the thread that serves synchronous clients. A later request starts it again."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(self._loop,), daemon=True).start()
        return self._loop


class _Connection:
    """One request and its response, as the application sees them."""

    def __init__(self, app: _App, request: httpx2.Request, body: bytes) -> None:
        self._body: bytes | None = body
        self._parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1)
        self._gone = asyncio.Event()
        self._task = asyncio.ensure_future(app(_scope(request), self._receive, self._send))

    async def start(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return status and headers."""
        message = await self._next()
        if message is None:
            raise httpx2.RemoteProtocolError("the application ended without a response")
        return message["status"], message.get("headers", [])

    async def part(self) -> bytes | None:
        """Return the next part of the body; None at its end."""
        message = await self._next()
        if message is None:
            raise httpx2.RemoteProtocolError("the application ended in the middle of a response")
        if not message.get("more_body", False) and not message.get("body"):
            await self.close()
            self._task.result()  # an application may fail after it has answered with status 500
            return None
        if not message.get("more_body", False):
            self._parts.put_nowait({"type": "http.response.body"})
        body: bytes = message.get("body", b"")
        return body

    async def close(self) -> None:
        """Let the application know that the client is gone, and wait until it has ended."""
        self._gone.set()
        if not self._parts.empty():
            self._parts.get_nowait()  # wakes the application, if it waits to send
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()

    async def _next(self) -> dict[str, Any] | None:
        """Return what the application sends next; raise what it raises; None: it has ended."""
        waiting = asyncio.ensure_future(self._parts.get())
        try:
            await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if not self._parts.empty():
                return self._parts.get_nowait()
            self._task.result()
            return None
        finally:
            waiting.cancel()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if not self._gone.is_set():
            await self._parts.put(dict(message))


class _AsyncStream(httpx2.AsyncByteStream):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._connection.part()) is not None:
            yield part

    async def aclose(self) -> None:
        await self._connection.close()


class _SyncStream(httpx2.SyncByteStream):
    def __init__(self, connection: _Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop

    def __iter__(self) -> Iterator[bytes]:
        while (part := self._wait(self._connection.part())) is not None:
            yield part

    def close(self) -> None:
        if not self._loop.is_closed() and self._loop.is_running():
            self._wait(self._connection.close())

    def _wait(self, step: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _scope(request: httpx2.Request) -> dict[str, Any]:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.split(b"?")[0],
        "query_string": url.query,
        "server": (url.host, url.port),
        "client": ("127.0.0.1", 123),
        "root_path": "",
    }
