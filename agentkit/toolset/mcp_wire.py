"""The bytes of an MCP stdio stream: lines, and what to make of lines that are no message.

Pure and without the MCP SDK. Servers print banners, other encodings and huge lines on their
stdout; none of it may stop the stream, and a broken answer must end the call it belongs to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

_EDGE = 4096
"""Bytes of an overlong line that are kept at each end, to find the request id in them."""

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')

RequestId = int | str


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line above the limit. Only its two ends and its size are kept."""

    edges: bytes
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Message:
    """A line that is a JSON object, to be validated as a JSON-RPC message."""

    value: dict[str, object]


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that is no message but names a request that waits for its answer."""

    request_id: RequestId
    problem: str


@dataclass(frozen=True, slots=True)
class Junk:
    """A line that belongs to nothing: a banner, a log line, a stray answer."""

    text: str


class LineSplitter:
    """Cuts a byte stream into lines, in time linear in its size and in bounded memory."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> Iterator[bytes | Overlong]:
        """Yield the lines that `data` completes, without their line ends."""
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            yield self._take()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._max_line_bytes:
            self._parts.append(piece)
            return
        if self._parts:
            self._head = b"".join(self._parts)[:_EDGE]
            self._parts = []
        self._head = (self._head + piece[:_EDGE])[:_EDGE]
        self._tail = (self._tail + piece[-_EDGE:])[-_EDGE:]

    def _take(self) -> bytes | Overlong:
        if self._size > self._max_line_bytes:
            line: bytes | Overlong = Overlong(self._head + b" " + self._tail, self._size)
        else:
            line = b"".join(self._parts).removesuffix(b"\r")
        self._parts, self._size, self._head, self._tail = [], 0, b"", b""
        return line


def read_line(line: bytes | Overlong, pending: Set[RequestId]) -> Message | Broken | Junk:
    """Say what a line is. `pending` holds the ids of the requests that wait for an answer.

    Undecodable bytes are read as U+FFFD, and lone surrogates and NaN pass, since the rest of such
    an answer is good; what reads results cleans them.
    """
    if isinstance(line, Overlong):
        problem = f"an answer of {line.size_bytes} bytes on one line, above the limit"
        return _broken_or_junk(line.edges, problem, pending)
    text = line.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _broken_or_junk(line, f"an answer that is no valid JSON ({error})", pending)
    return Message(value) if isinstance(value, dict) else Junk(text[:_EDGE])


def _broken_or_junk(data: bytes, problem: str, pending: Set[RequestId]) -> Broken | Junk:
    for match in _ID.finditer(data):
        request_id: RequestId = json.loads(match.group(1))
        if request_id in pending:
            return Broken(request_id, problem)
    return Junk(data[:_EDGE].decode("utf-8", "replace"))
