"""Bytes to text, text to lines, and names and lines to something that is safe to show."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator

from agentkit_tools._errors import Refused

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Larger files are neither read, searched nor written."""

MAX_LINE_CHARS = 2000
"""A longer line is cut when shown."""

MAX_ANSWER_CHARS = 38_000
"""No answer is longer: clients cut what is, agentkit at 40,000 characters and in the middle."""

_NOTE_CHARS = 500
"""Left free in an answer for what is said about it."""

_CONTEXT_CHARS = 100
"""In a long line, what is shown starts this far before a match."""

_SNIFFED_BYTES = 8192


def decode(data: bytes, path: str) -> str:
    """Decode UTF-8 text, with or without a byte order mark. Undecodable bytes become U+FFFD.

    Raises:
        Refused: the data is binary (a NUL byte near its start, which UTF-16 text has too).
    """
    if is_binary(data):
        raise Refused(f"{path!r} is a binary file, or not UTF-8 text, and cannot be shown as text")
    return data.decode("utf-8-sig", "replace")


def decode_exactly(data: bytes, path: str) -> str:
    """Decode so that `encode_exactly` gives the same bytes, whatever is not UTF-8 in them.

    Raises:
        Refused: as `decode`.
    """
    if is_binary(data):
        raise Refused(f"{path!r} is a binary file, or not UTF-8 text, and cannot be edited as text")
    return data.decode("utf-8", "surrogateescape")


def encode_exactly(text: str) -> bytes:
    """The bytes that `decode_exactly` got."""
    return text.encode("utf-8", "surrogateescape")


def is_binary(data: bytes) -> bool:
    """Whether this is no text, by the rule that grep and git use: a NUL byte near the start."""
    return b"\0" in data[:_SNIFFED_BYTES]


def lines_of(text: str) -> list[str]:
    """The lines without their ends: LF or CR LF and nothing else; the last line may lack it."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def each_line(text: str) -> Iterator[str]:
    """As `lines_of`, one after the other: all lines together can take ten times their text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].removesuffix("\r")
        start = end + 1


def count_lines(data: bytes) -> int:
    """How many lines `lines_of` would give."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def n_lines(count: int) -> str:
    """A number of lines in words."""
    return "1 line" if count == 1 else f"{count} lines"


def fitting(lines: list[str], n_used_chars: int = 0) -> list[str]:
    """The first lines that fit into an answer with what it has already, but at least one."""
    room = MAX_ANSWER_CHARS - _NOTE_CHARS - n_used_chars
    sizes = itertools.accumulate(len(line) + 1 for line in lines)
    return lines[: max(1, sum(size <= room for size in sizes))]


def shown_line(line: str, start: int = 0) -> str:
    """At most `MAX_LINE_CHARS` characters of a line from `start`, with a note of what is cut."""
    part = line[start : start + MAX_LINE_CHARS]
    before = "... " if start else ""
    after = f" ... [line of {len(line)} characters]" if start + len(part) < len(line) else ""
    return f"{before}{part}{after}"


def shown_match(line: str, start: int) -> str:
    """The whole line; of a very long one the part around a match that starts there."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    return shown_line(line, max(0, min(start, len(line)) - _CONTEXT_CHARS))


def version_of(data: bytes) -> str:
    """A short name of a file's content: equal contents have equal versions."""
    return hashlib.sha256(data).hexdigest()[:12]
