"""Bodies that are compressed, made readable: else nobody could look for secrets in them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

_GZIP_OR_ZLIB = 47
_RAW = -15


class UnreadableBody(AssertionError):
    """A body is compressed in a way that we cannot undo. It is not written down."""


def readable(body: bytes, headers: Iterable[tuple[str, str]], whose: str) -> bytes:
    """Return a body without what its `content-encoding` says was done to it.

    Args:
        body: as it was on the wire, or the beginning of it.
        headers: those that came with it.
        whose: for the error.

    Raises:
        UnreadableBody: it is neither plain nor in gzip nor deflate.
    """
    given = ",".join(value for name, value in headers if name.lower() == "content-encoding")
    encodings = [each.strip().lower() for each in given.split(",")]
    for encoding in reversed(encodings):
        if encoding in ("", "identity") or not body:
            continue
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise UnreadableBody(
                f"{whose} is compressed with {encoding!r}, so secrets cannot be looked for in it; "
                "only gzip and deflate are read: have it sent without"
            )
        body = _inflated(body, whose)
    return body


def _inflated(body: bytes, whose: str) -> bytes:
    for form in (_GZIP_OR_ZLIB, _RAW):
        found = b""
        rest = body
        try:
            while rest:
                stream = zlib.decompressobj(form)
                found += stream.decompress(rest) + stream.flush()
                rest = stream.unused_data
        except zlib.error:
            continue
        return found
    raise UnreadableBody(f"{whose} is not compressed as it says, so it cannot be searched")
