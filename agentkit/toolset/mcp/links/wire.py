"""The bytes of an MCP stdio stream: lines, and what to make of lines that are no message.

Pure and without the MCP SDK. Servers print banners, other encodings and huge lines on their
stdout; none of it may stop the stream, and a broken answer must end the call it belongs to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from agentkit.toolset.results import encodable

_EDGE = 4096
"""Bytes of an overlong line that are kept at each end, to find the request id in them."""

_TOKEN = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)')
"""One token of JSON, or of something like it."""

_ID = re.compile(rb'\d{1,18}|"[^"\\]{1,200}"')

_ID_AT_END = re.compile(
    rb'[,{]\s*"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")'
    rb'(?:\s*,\s*"[^"\\]{0,50}"\s*:\s*(?:"[^"\\]{0,200}"|[-+.\w]{1,30}))*\s*\}\s*\Z'
)
"""An id before the last bracket of a line, with only plain members between, so an outermost one."""

RequestId = int | str


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line above the limit. Only its two ends and its size are kept."""

    head: bytes
    tail: bytes
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
            line: bytes | Overlong = Overlong(self._head, self._tail, self._size)
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
        return _broken_or_junk(line.head, line.tail, problem, pending)
    text = line.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"an answer that is no valid JSON ({error})"
        return _broken_or_junk(line[:_EDGE], line[-_EDGE:], problem, pending)
    return Message(value) if isinstance(value, dict) else Junk(text[:_EDGE])


def is_bearable(message: object) -> bool:
    """Whether the SDK can take a message. It makes floats of a progress's numbers, and ends the
    whole connection where an integer is too long for that."""
    params = getattr(message, "params", None)
    if getattr(message, "method", None) != "notifications/progress" or not isinstance(params, dict):
        return True
    try:
        for name in ("progress", "total"):
            if isinstance(number := params.get(name), int):
                float(number)
    except OverflowError:
        return False
    return True


def sendable(value: object) -> object:
    """A JSON value with `?` for lone surrogates, which no UTF-8 has."""
    match value:
        case str():
            return encodable(value)
        case dict():
            return {encodable(str(key)): sendable(each) for key, each in value.items()}
        case list():
            return [sendable(each) for each in value]
        case _:
            return value


def _broken_or_junk(
    head: bytes, tail: bytes, problem: str, pending: Set[RequestId]
) -> Broken | Junk:
    # Most noise has none, and looking closer costs ten times as much as all the rest.
    may_answer = b'"id"' in head or b'"id"' in tail
    request_id = _answered_id(head, tail) if may_answer else None
    if request_id is not None and request_id in pending:
        return Broken(request_id, problem)
    return Junk(head.decode("utf-8", "replace"))


def _answered_id(head: bytes, tail: bytes) -> RequestId | None:
    """The request that a broken answer belongs to: the `id` of the outermost object only.

    Ids deeper down are data. A message with a `method` is no answer: its id is the server's own.
    """
    depth, key, last = 0, b"", b""
    position = 0
    while match := _TOKEN.match(head, position):
        token, position = match.group(1), match.end()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b":" and depth == 1:
            key = last
            if key == b'"method"':
                return None
        elif key == b'"id"' and depth == 1 and _ID.fullmatch(token) and last == b":":
            return _id_of(token)
        last = token
    at_end = _ID_AT_END.search(tail)
    return None if at_end is None else _id_of(at_end.group(1))


def _id_of(token: bytes) -> RequestId | None:
    try:
        value = json.loads(token)
    except ValueError:
        return None
    return value if isinstance(value, int | str) else None
