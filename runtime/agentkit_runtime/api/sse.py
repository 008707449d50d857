"""Server-sent events, and work that ends when the client goes away.

Both answers, streamed or not, watch the connection while they wait for the model: a client that
vanishes during a long prefill must not keep its slots until the first token.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import TypeVar

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

CLIENT_GONE_STATUS = 499
"""Nobody reads it; access logs do (the number is nginx's)."""

DONE = b"data: [DONE]\n\n"
"""The last event of an OpenAI stream."""


class ClientGone(Exception):
    """The client closed the connection before the work was done."""


def event(document: object, name: str | None = None) -> bytes:
    """One event, as ASCII: some clients split lines at U+2028 and U+0085, which JSON allows raw.

    `name` is its `event:` field.
    """
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(document, separators=(',', ':'))}\n\n".encode("ascii")


class EventStream(StreamingResponse):
    """Sends `events`; calls `on_close` exactly when nothing more will be read from them.

    Starlette leaves watching the connection to the server under newer ASGI versions; here it is
    always watched, so that a client that is gone stops the work before the next event.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        on_close: Callable[[], None],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        # X-Accel-Buffering: nginx would otherwise collect the stream and send it as one block.
        always = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers={**always, **headers})
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client is gone."""
        try:
            # OSError is how some servers say that the client is gone.
            with contextlib.suppress(ClientGone, OSError):
                await while_connected(receive, self.stream_response(send))
        finally:
            self._on_close()


async def while_connected(receive: Receive, work: Coroutine[object, object, T]) -> T:
    """The result of `work`, which is cancelled when the client disconnects.

    Call it after the request's body was read: `receive` then waits for the disconnect.

    Raises:
        ClientGone: the client went away first; `work` has been cancelled and has ended.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        task.cancel()
        watcher.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def answered(receive: Receive, work: Coroutine[object, object, Response]) -> Response:
    """The answer that `work` makes, or one that nobody will read where the client goes first."""
    try:
        return await while_connected(receive, work)
    except ClientGone:
        return Response(status_code=CLIENT_GONE_STATUS)


async def told(work: Coroutine[object, object, object]) -> Response:
    """The document that `work` makes, as an answer: for `answered`."""
    return JSONResponse(await work)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
