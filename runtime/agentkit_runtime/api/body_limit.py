"""Refuses request bodies that are too large, before they are in memory."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DEFAULT_MAX_BODY_BYTES = 16 * 1024 * 1024


class BodyLimit:
    """ASGI middleware. Reading more than `max_bytes` of a body raises HTTP 413 in the application.

    A body whose announced length is too large is refused before its first byte is read; one without
    an announced length, as soon as it has grown too large.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        n_announced = _announced_bytes(scope)
        n_read = 0

        async def counted() -> Message:
            nonlocal n_read
            self._check(n_announced)
            message = await receive()
            n_read += len(message.get("body", b""))
            self._check(n_read)
            return message

        await self._app(scope, counted, send)

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
