"""Server-sent events, read from a response that a vendor's client has opened.

The clients have readers of their own, in which each event passes through six generators; here it
takes one. What an event means, and which errors a stream can report, is the sender's business.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from httpx2 import Response


async def sse_events(response: Response) -> AsyncGenerator[tuple[str, str], None]:
    """Yield name and data of each event that has data, as they come; the name may be empty.

    Raises:
        UnicodeDecodeError: it is no UTF-8.
    """
    reader = _Reader()
    chunks: AsyncGenerator[bytes, None] = response.aiter_bytes()
    async with aclosing(chunks):
        async for chunk in chunks:
            for event in reader.push(chunk):
                yield event


def transport_errors() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """Return how the HTTP libraries that are in use say that time is up, and all their errors.

    Clients take an `http_client` of the user's, of either library.
    """
    loaded = [sys.modules[name] for name in ("httpx2", "httpx") if name in sys.modules]
    timeouts = tuple(module.TimeoutException for module in loaded)
    return timeouts, tuple(module.RequestError for module in loaded)


class _Reader:
    """Splits a stream into events. Source: the HTML standard, 9.2.6."""

    def __init__(self) -> None:
        self._rest = b""
        """A line that is not complete yet."""
        self._name = ""
        self._data: list[str] = []

    def push(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """Yield the events that a chunk completes."""
        text = self._rest + chunk
        # A carriage return at the end may be half of a line's end.
        lines = text.splitlines(keepends=True)
        self._rest = b"" if not lines or lines[-1].endswith(b"\n") else lines.pop()
        for line in lines:
            event = self._line(line.rstrip(b"\r\n"))
            if event is not None:
                yield event

    def _line(self, line: bytes) -> tuple[str, str] | None:
        if not line:
            name, data = self._name, "\n".join(self._data)
            self._name, self._data = "", []
            return (name, data) if data else None
        field, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
