"""Bodies of HTTP answers, bounded, with messages that can be parsed (`http_messages.py`).

An answer that cannot be read becomes an error that says so: the server has had the request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator

import httpx2

from agentkit.toolset.mcp.links.http_messages import lost, parsable
from agentkit.toolset.mcp.links.wire import LineSplitter, Overlong, RequestId

_OF_OLD = (b"event: endpoint", b"event:endpoint")
"""The first line of a stream of before 2025-03-26."""

_KINDS = ("application/json", "text/event-stream")
_ACCEPTED = 202
"""The status of what needs no answer."""

_LEAST_RETRY_MS, _MOST_RETRY_MS = 500, 300_000
"""A stream that ends at once would be opened again a hundred times a second, or never any more."""
_MOST_RETRY_DIGITS = 12

_DROPPED_HEADERS = ("content-type", "content-encoding", "content-length", "transfer-encoding")


def readable(
    request: httpx2.Request,
    response: httpx2.Response,
    limit: int,
    old: str | None = None,
    on_endpoint: Callable[[str], None] | None = None,
) -> httpx2.Response:
    """Return a response whose body the SDK can parse, or the response itself if it is neither JSON
    that answers a request nor a stream of events.

    Args:
        request: what was sent.
        response: what came, with its body unread.
        limit: the most bytes of a JSON body, or of one event; what is above becomes an error.
        old: what to say of a server that answers with the stream of the old transport; None: that
            is what is spoken.
        on_endpoint: in the old transport called with the address that messages are to be sent to.
    """
    kind = _kind_of(response)
    request_id = _request_id(request)
    stream: httpx2.AsyncByteStream
    if kind == "text/event-stream":
        stream = _Events(response, limit, request_id, old, on_endpoint)
    elif kind == "application/json" and request_id is not None:
        stream = _Json(response, limit, request_id)
    else:
        return response
    headers = [each for each in response.headers.multi_items() if each[0] not in _DROPPED_HEADERS]
    # Without a charset: both are UTF-8 whatever it says.
    headers.append(("content-type", kind))
    return httpx2.Response(response.status_code, headers=headers, stream=stream, request=request)


def no_answer(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response | None:
    """Return what to say of a success that answers a request with nothing of MCP: a proxy's page,
    say. None: it is an answer, or to what has none."""
    request_id, kind = _request_id(request), _kind_of(response)
    if request_id is None or (kind in _KINDS and response.status_code != _ACCEPTED):
        return None
    status = response.status_code
    what = f"HTTP {status}" if status == _ACCEPTED else f"{kind[:100] or 'no content type'!r}"
    problem = f"answered with {what}, which is no answer of MCP; check url of the McpServer"
    headers = {"content-type": "application/json"}
    content = lost(request_id, problem)
    return httpx2.Response(200, headers=headers, content=content, request=request)


async def emptied(response: httpx2.Response) -> httpx2.Response:
    """Return the response without its body, which is not read: it may never end."""
    await response.aclose()
    headers = [each for each in response.headers.multi_items() if each[0] not in _DROPPED_HEADERS]
    empty = httpx2.Response(response.status_code, headers=headers, request=response.request)
    empty.next_request = response.next_request
    return empty


class _Json(httpx2.AsyncByteStream):
    """A whole JSON answer in one piece; an error of the network or of its form is one, too."""

    def __init__(self, response: httpx2.Response, limit: int, request_id: RequestId) -> None:
        self._response = response
        self._limit = limit
        self._request_id = request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        try:
            async for part in self._response.aiter_bytes():
                body += part
                if len(body) > self._limit:
                    yield lost(self._request_id, f"sent {_above(self._limit)}")
                    return
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            yield lost(self._request_id, f"broke off its answer ({type(error).__name__})")
            return
        yield parsable(bytes(body), self._request_id, is_only=True) or lost(
            self._request_id, "sent an answer that is no JSON-RPC message"
        )

    async def aclose(self) -> None:
        await self._response.aclose()


class _Events(httpx2.AsyncByteStream):
    """A stream of events, each of them whole. One above the limit ends it."""

    def __init__(
        self,
        response: httpx2.Response,
        limit: int,
        request_id: RequestId | None,
        old: str | None,
        on_endpoint: Callable[[str], None] | None,
    ) -> None:
        self._on_endpoint = on_endpoint
        self._response = response
        self._limit = limit
        self._request_id = request_id
        self._old = old
        self._lines: list[bytes] = []
        self._n_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        splitter = LineSplitter(self._limit)
        ends_in_cr = False
        async for part in self._response.aiter_bytes():
            if not part:
                continue
            data = part[1:] if ends_in_cr and part.startswith(b"\n") else part
            ends_in_cr = part.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            for line in splitter.feed(data):
                if not self._has_room_for(line):
                    yield self._overlong()
                    return
                if line in _OF_OLD and self._old and self._request_id is not None:
                    # It begins so, and then waits for posts elsewhere: there will be no answer.
                    yield _event(lost(self._request_id, self._old))
                    return
                if line == b"":
                    yield b"".join(each + b"\n" for each in self._take()) + b"\n"

    async def aclose(self) -> None:
        await self._response.aclose()

    def _has_room_for(self, line: bytes | Overlong) -> bool:
        if isinstance(line, Overlong):
            return False
        if line and not line.startswith(b":"):
            self._lines.append(line)
            self._n_bytes += len(line) + 1
        return self._n_bytes <= self._limit

    def _overlong(self) -> bytes:
        problem = _above(self._limit)
        if self._request_id is None:
            raise httpx2.SSEError(f"the server sent {problem}")
        return _event(lost(self._request_id, f"sent {problem}"))

    def _take(self) -> Iterator[bytes]:
        """The lines of the event that has ended, with data that can be parsed."""
        lines, self._lines, self._n_bytes = list(map(_patient, self._lines)), [], 0
        fields = [(name, value.removeprefix(b" ")) for name, _, value in map(_split, lines)]
        kinds = [value for name, value in fields if name == b"event"]
        data = b"\n".join(value for name, value in fields if name == b"data")
        if kinds[-1:] == [b"endpoint"] and self._on_endpoint is not None:
            self._on_endpoint(data.decode("utf-8", "replace"))
        if (kinds and kinds[-1] not in (b"", b"message")) or not data:
            yield from lines
            return
        yield from (line for line, (name, _) in zip(lines, fields, strict=True) if name != b"data")
        passed = parsable(data, self._request_id)
        if passed is not None:
            # JSON may have line ends between its tokens, and they mean nothing there.
            yield b"data: " + passed.replace(b"\n", b" ")
        elif self._request_id is None:
            yield b"data: " + data.replace(b"\n", b" ")


def _patient(line: bytes) -> bytes:
    """The line; one that says when a stream is opened again names no time of no use."""
    name, _, value = _split(line)
    if name != b"retry" or not value.strip().isdigit():
        return line
    digits = value.strip()[:_MOST_RETRY_DIGITS]
    return b"retry: %d" % min(max(int(digits), _LEAST_RETRY_MS), _MOST_RETRY_MS)


def _event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data + b"\n\n"


def _split(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b":")


def _kind_of(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _request_id(request: httpx2.Request) -> RequestId | None:
    """The id of the JSON-RPC request that is sent; None if it is nothing that has an answer."""
    if request.method != "POST":
        return None
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    match message:
        case {"method": str(), "id": int() | str() as request_id}:
            return request_id
        case _:
            return None


def is_notice(request: httpx2.Request) -> bool:
    """Whether it posts what has no answer: a notification, or an answer of ours."""
    return request.method == "POST" and _request_id(request) is None


def _above(limit: int) -> str:
    return f"an answer above the limit of {limit} bytes"
