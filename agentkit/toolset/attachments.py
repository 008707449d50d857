"""Images and documents that tools return: only what every provider that shows them can read.

What is in a context is sent with every later request, so one image that a provider cannot decode
would fail the conversation for ever. The bytes are looked at here; what a tool says of them is not
believed.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

from agentkit.blocks import File, Image

MOST_BYTES = 5_000_000
"""Of one attachment, decoded: what the strictest provider takes."""
_MOST_PIXELS_A_SIDE = 8_000
_MOST_PAGES = 100
_PDF = "application/pdf"


class BadAttachment(ValueError):
    """Bytes that are not shown. The text says why, for the model."""


def image_of(data: object, most_bytes: int = MOST_BYTES) -> Image:
    """Return the image that base64 text is, with its real type and size.

    Raises:
        BadAttachment: it is none that all providers read: PNG, JPEG, GIF or WebP, whole, and not
            too large.
    """
    raw = _decoded(data, most_bytes)
    for media_type, begins, size_of in _FORMATS:
        if begins(raw):
            try:
                width, height = size_of(raw)
            except (struct.error, IndexError):
                raise BadAttachment(f"it is no whole {media_type}") from None
            if not (1 <= width <= _MOST_PIXELS_A_SIDE and 1 <= height <= _MOST_PIXELS_A_SIDE):
                raise BadAttachment(f"it measures {width} x {height} pixels")
            text = base64.b64encode(raw).decode()
            return Image(media_type=media_type, data=text, width=width, height=height)
    raise BadAttachment("its bytes are no PNG, JPEG, GIF or WebP")


def pdf_of(data: object, name: str, most_bytes: int = MOST_BYTES) -> File:
    """Return the PDF that base64 text is.

    Raises:
        BadAttachment: it is none, or one that providers refuse.
    """
    raw = _decoded(data, most_bytes)
    if not raw.startswith(b"%PDF-") or b"%%EOF" not in raw[-2048:]:
        raise BadAttachment("its bytes are no whole PDF")
    if b"/Encrypt" in raw:
        raise BadAttachment("it is encrypted")
    n_pages = len(re.findall(rb"/Type\s*/Page(?![a-zA-Z])", raw))
    if n_pages > _MOST_PAGES:
        raise BadAttachment(f"it has {n_pages} pages, of {_MOST_PAGES} at most")
    return File.of_bytes(raw, _PDF, name=name)


def checked(block: Image | File) -> Image | File:
    """Return a block that a function made, with what its bytes say of it.

    What is given by URL is the program's own choice, and not looked at.

    Raises:
        BadAttachment: it is not what it says, or nothing that providers read.
    """
    if block.data is None:
        return block
    if isinstance(block, Image):
        found = image_of(block.data)
        if found.media_type != block.media_type:
            raise BadAttachment(f"it is {found.media_type}")
        return replace(found, breakpoint=block.breakpoint)
    if block.media_type == _PDF:
        return replace(pdf_of(block.data, block.name), breakpoint=block.breakpoint)
    raw = _decoded(block.data, MOST_BYTES)
    if block.media_type.startswith("text/"):
        try:
            raw.decode()
        except UnicodeDecodeError:
            raise BadAttachment("it is no UTF-8") from None
    return block


def _decoded(data: object, most_bytes: int) -> bytes:
    if not isinstance(data, str):
        raise BadAttachment("there are no bytes")
    if len(data) > most_bytes * 4 // 3 + 4:
        raise BadAttachment(f"it has {len(data) * 3 // 4:,} bytes, of {most_bytes:,} at most")
    try:
        # Some encoders wrap lines; what is attached is encoded anew.
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadAttachment("its bytes are no base64") from None
    if not raw:
        raise BadAttachment("it is empty")
    return raw


def _is_png(raw: bytes) -> bool:
    return raw.startswith(b"\x89PNG\r\n\x1a\n")


def _png_size(raw: bytes) -> tuple[int, int]:
    """Walk all chunks: a decoder stops at the first that is damaged."""
    size: tuple[int, int] | None = None
    has_pixels = False
    at = 8
    while at < len(raw):
        length, kind = struct.unpack(">I4s", raw[at : at + 8])
        body = raw[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", raw[at + 8 + length : at + 12 + length])
        if zlib.crc32(kind + body) != checksum:
            raise BadAttachment("it is a damaged PNG")
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        has_pixels = has_pixels or kind == b"IDAT"
        at += 12 + length
        if kind == b"IEND":
            break
    else:
        raise BadAttachment("it is a PNG that was cut off")
    if size is None or not has_pixels:
        raise BadAttachment("it is a PNG without an image")
    return size


def _is_jpeg(raw: bytes) -> bool:
    return raw.startswith(b"\xff\xd8\xff")


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    if b"\xff\xd9" not in raw[-1024:]:
        raise BadAttachment("it is a JPEG that was cut off")
    at = 2
    while True:
        if raw[at] != 0xFF:
            raise BadAttachment("it is a damaged JPEG")
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        (length,) = struct.unpack(">H", raw[at + 2 : at + 4])
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + length


_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers that begin a frame, which says the size."""


def _is_gif(raw: bytes) -> bool:
    return raw.startswith((b"GIF87a", b"GIF89a"))


def _gif_size(raw: bytes) -> tuple[int, int]:
    if b"\x3b" not in raw[-16:]:
        raise BadAttachment("it is a GIF that was cut off")
    width, height = struct.unpack("<HH", raw[6:10])
    return width, height


def _is_webp(raw: bytes) -> bool:
    return raw.startswith(b"RIFF") and raw[8:12] == b"WEBP"


def _webp_size(raw: bytes) -> tuple[int, int]:
    (length,) = struct.unpack("<I", raw[4:8])
    if len(raw) < length + 8:
        raise BadAttachment("it is a WebP that was cut off")
    kind = raw[12:16]
    if kind == b"VP8X":
        return _uint24(raw[24:27]) + 1, _uint24(raw[27:30]) + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack("<I", raw[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and raw[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", raw[26:30])
        return width & 0x3FFF, height & 0x3FFF
    raise BadAttachment("it is a damaged WebP")


def _uint24(three: bytes) -> int:
    return int.from_bytes(three.ljust(3, b"\0"), "little")


_FORMATS: tuple[tuple[str, Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]], ...] = (
    ("image/png", _is_png, _png_size),
    ("image/jpeg", _is_jpeg, _jpeg_size),
    ("image/gif", _is_gif, _gif_size),
    ("image/webp", _is_webp, _webp_size),
)
