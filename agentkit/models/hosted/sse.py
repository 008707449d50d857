"""Server-sent events, read from a response that a vendor's client has opened.

The clients have readers of their own, in which each event passes through six generators; here it
takes one. What an event means, and which errors a stream can report, is the sender's business.
"""

from __future__ import annotations

import json
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


def event_json(data: str) -> object:
    """Return the value that an event's data is the JSON of.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        # `json.loads` asks more questions first than most events are long.
        value, end = _DECODER.raw_decode(data)
    except ValueError:
        end = -1
    return value if end == len(data) else json.loads(data)


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
        lines = text.splitlines()
        self._rest = b""
        if lines and text[-1:] != b"\n":
            # A carriage return at the end may be half of a line's end.
            self._rest = lines.pop() + (b"\r" if text[-1:] == b"\r" else b"")
        for line in lines:
            field, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                self._data.append(value.decode())
            elif field == b"event":
                self._name = value.decode()
            elif not line:
                name, data = self._name, "\n".join(self._data)
                self._name, self._data = "", []
                if data:
                    yield name, data


_DECODER = json.JSONDecoder()
