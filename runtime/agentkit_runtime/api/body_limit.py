"""Refuses request bodies that are too large, or do not come, before they are in memory."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DEFAULT_MAX_BODY_BYTES = 16 * 1024 * 1024

DEFAULT_BODY_TIMEOUT_S = 60.0


class BodyLimit:
    """ASGI middleware. Reading more than `max_bytes` of a body raises HTTP 413 in the application.

    A body whose announced length is too large is refused before its first byte is read; one without
    an announced length, as soon as it has grown too large. One that is not there `timeout_s` after
    its headers ends with HTTP 408.
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, timeout_s: float = DEFAULT_BODY_TIMEOUT_S
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        n_announced = _announced_bytes(scope)
        n_read = 0
        more = True
        due_s = asyncio.get_running_loop().time() + self._timeout_s

        async def counted() -> Message:
            nonlocal n_read, more
            self._check(n_announced)
            # Behind the body, what comes is that the client goes: no time is too long for that.
            message = await (self._in_time(receive, due_s) if more else receive())
            more = message.get("more_body", False)
            n_read += len(message.get("body", b""))
            self._check(n_read)
            return message

        await self._app(scope, counted, send)

    async def _in_time(self, receive: Receive, due_s: float) -> Message:
        try:
            async with asyncio.timeout_at(due_s):
                return await receive()
        except TimeoutError as error:
            raise HTTPException(
                408,
                f"the request's body did not come within {self._timeout_s:g} s; send it at once",
                headers={"Connection": "close"},
            ) from error

    def _check(self, n_bytes: int) -> None:
        if n_bytes > self._max_bytes:
            # FastAPI turns any other exception while it reads a body into a 400.
            raise HTTPException(
                413, f"the request's body is larger than {self._max_bytes} bytes; shorten it"
            )


def _announced_bytes(scope: Scope) -> int:
    """Content-Length; 0 if there is none (servers refuse malformed ones)."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0
