"""The formats of images that all providers read: recognized, measured, and checked for being whole.

With the standard library alone, so no pixel is decoded. What is checked is the structure: that all
parts are there, and that those of a PNG inflate to the pixels that it promises.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

Size = tuple[int, int]
"""Width and height in pixels."""

_MOST_INFLATED = 32 * 1024 * 1024
"""Bytes of a PNG's pixels that are looked at. Larger ones are not inflated to their end."""
_MOST_TIMES = 32
"""So many times its compressed size, and a mebibyte more, is looked at: what inflates to far more
is mostly of one colour, or made to take time."""
_STEP = 1024 * 1024
_LEAST_GIF_BYTES = 32
"""Of a GIF's blocks, on average. Encoders fill them with 255."""
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Of a PNG's pixel, by its kind of colour."""
_PASSES = ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2))
_LAST_PASS = (0, 1, 1, 2)
"""Of an interlaced PNG: first column, step, first row, step."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers that begin a frame, which says the size."""


class NoImage(ValueError):
    """Bytes that no decoder reads. The text says why."""


def measured(raw: bytes) -> tuple[str, Size] | None:
    """Return media type and size of an image; None if it is of no known format.

    Raises:
        NoImage: it is damaged, cut off, or has no picture in it.
    """
    for media_type, begins, size_of in _FORMATS:
        if begins(raw):
            try:
                return media_type, size_of(raw)
            except (struct.error, IndexError):
                raise NoImage(f"it is no whole {media_type}") from None
    return None


def _is_png(raw: bytes) -> bool:
    return raw.startswith(b"\x89PNG\r\n\x1a\n")


def _png_size(raw: bytes) -> Size:
    """Walk all chunks: a decoder stops at the first that is damaged."""
    header: tuple[int, ...] | None = None
    pixels: list[bytes] = []
    at = 8
    while at < len(raw):
        length, kind = struct.unpack(">I4s", raw[at : at + 8])
        body = raw[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", raw[at + 8 + length : at + 12 + length])
        if zlib.crc32(kind + body) != checksum:
            raise NoImage("it is a damaged PNG")
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            pixels.append(body)
        at += 12 + length
        if kind == b"IEND":
            break
    else:
        raise NoImage("it is a PNG that was cut off")
    if header is None or not pixels:
        raise NoImage("it is a PNG without an image")
    data = b"".join(pixels)
    most = min(_MOST_INFLATED, _STEP + _MOST_TIMES * len(data))
    if not _inflates(data, min(_png_bytes(header), most)):
        raise NoImage("it is a PNG whose pixels are damaged or missing")
    return header[0], header[1]


def _png_bytes(header: tuple[int, ...]) -> int:
    """How many bytes a PNG's pixels are, with the one that leads each row."""
    width, height, depth, colour, _, _, interlaced = header
    if colour not in _CHANNELS or depth not in (1, 2, 4, 8, 16):
        raise NoImage("it is a PNG of an unknown kind")
    bits = depth * _CHANNELS[colour]
    passes = (*_PASSES, _LAST_PASS) if interlaced else ((0, 1, 0, 1),)
    total = 0
    for left, across, top, down in passes:
        columns = max(0, -(-(width - left) // across))
        rows = max(0, -(-(height - top) // down))
        total += rows * (1 + -(-columns * bits // 8)) if columns else 0
    return total


def _inflates(data: bytes, n_bytes: int) -> bool:
    """Whether there are so many bytes in compressed data."""
    inflating = zlib.decompressobj()
    found = 0
    try:
        while found < n_bytes:
            part = inflating.decompress(data, min(_STEP, n_bytes - found))
            if not part:
                return False
            found += len(part)
            data = inflating.unconsumed_tail
    except zlib.error:
        return False
    return True


def _is_jpeg(raw: bytes) -> bool:
    return raw.startswith(b"\xff\xd8\xff")


def _jpeg_size(raw: bytes) -> Size:
    end = raw.rfind(b"\xff\xd9")
    if end < len(raw) - 1024:
        raise NoImage("it is a JPEG that was cut off")
    size: Size | None = None
    at = 2
    while at < end:
        if raw[at] != 0xFF:
            raise NoImage("it is a damaged JPEG")
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        (length,) = struct.unpack(">H", raw[at + 2 : at + 4])
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            size = width, height
        at += 2 + length
        if marker == 0xDA and size is not None and at < end:
            return size
    raise NoImage("it is a JPEG without an image")


def _is_gif(raw: bytes) -> bool:
    return raw.startswith((b"GIF87a", b"GIF89a"))


def _gif_size(raw: bytes) -> Size:
    """Walk all blocks up to the trailer."""
    width, height = struct.unpack("<HH", raw[6:10])
    at = 13 + _table_bytes(raw[10])
    has_picture = False
    n_blocks_left = 1_000 + len(raw) // _LEAST_GIF_BYTES
    while (kind := raw[at]) != 0x3B:
        if kind == 0x2C:
            at += 10 + _table_bytes(raw[at + 9]) + 1
            has_picture = has_picture or raw[at] > 0
        elif kind == 0x21:
            at += 2
        else:
            raise NoImage("it is a damaged GIF")
        while raw[at] and n_blocks_left:
            at += 1 + raw[at]
            n_blocks_left -= 1
        if not n_blocks_left:
            raise NoImage("it is a GIF in too many parts")
        at += 1
    if not has_picture:
        raise NoImage("it is a GIF without an image")
    return width, height


def _table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _is_webp(raw: bytes) -> bool:
    return raw.startswith(b"RIFF") and raw[8:12] == b"WEBP"


def _webp_size(raw: bytes) -> Size:
    """Walk all chunks up to the first picture, which may be one of an animation."""
    (length,) = struct.unpack("<I", raw[4:8])
    if len(raw) < length + 8:
        raise NoImage("it is a WebP that was cut off")
    canvas: Size | None = None
    at = 12
    while at < length + 8:
        kind, n_bytes = struct.unpack("<4sI", raw[at : at + 8])
        body = raw[at + 8 : at + 8 + n_bytes]
        if len(body) < n_bytes:
            raise NoImage("it is a damaged WebP")
        if kind == b"VP8X":
            canvas = _uint24(body[4:7]) + 1, _uint24(body[7:10]) + 1
        elif kind == b"ANMF":
            picture = _webp_picture(body[16:20], body[24:])
            return canvas or picture
        elif kind in (b"VP8 ", b"VP8L"):
            picture = _webp_picture(kind, body)
            return canvas or picture
        at += 8 + n_bytes + n_bytes % 2
    raise NoImage("it is a WebP without an image")


def _webp_picture(kind: bytes, body: bytes) -> Size:
    if kind == b"ALPH":  # before the picture of a frame
        return 1, 1
    if kind == b"VP8L" and body[:1] == b"\x2f":
        (bits,) = struct.unpack("<I", body[1:5])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    raise NoImage("it is a damaged WebP")


def _uint24(three: bytes) -> int:
    if len(three) < 3:
        raise NoImage("it is a damaged WebP")
    return int.from_bytes(three, "little")


_FORMATS: tuple[tuple[str, Callable[[bytes], bool], Callable[[bytes], Size]], ...] = (
    ("image/png", _is_png, _png_size),
    ("image/jpeg", _is_jpeg, _jpeg_size),
    ("image/gif", _is_gif, _gif_size),
    ("image/webp", _is_webp, _webp_size),
)
