"""Small images and documents, made by hand: whole ones."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 1, height: int = 1) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        checksum = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0" * ((width + 1) * height))
    chunks = (chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def jpeg(width: int = 1, height: int = 1) -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    head = b"\xff\xd8\xff\xe0" + struct.pack(">H", 4) + b"JF"
    return (
        head
        + b"\xff\xc0"
        + struct.pack(">H", len(frame) + 2)
        + frame
        + b"\xff\xda\0\x02\x11\xff\xd9"
    )


def gif(width: int = 1, height: int = 1) -> bytes:
    screen = struct.pack("<HH", width, height)
    picture = b"\x2c\0\0\0\0" + screen + b"\0\x02\x02\x44\x01\0"
    return b"GIF89a" + screen + b"\0\0\0" + picture + b"\x3b"


def webp(width: int = 1, height: int = 1, kind: bytes = b"VP8 ") -> bytes:
    more = b""
    match kind:
        case b"VP8X":
            sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
            body = b"\0\0\0\0" + sizes
            inner = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
            more = b"VP8 " + struct.pack("<I", len(inner)) + inner
        case b"VP8L":
            bits = (width - 1) | (height - 1) << 14
            body = b"\x2f" + struct.pack("<I", bits)
        case _:
            body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    chunk = kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2) + more
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def pdf(pages: int = 1) -> bytes:
    objects = b"1 0 obj << /Type /Page >> endobj\n" * pages
    return b"%PDF-1.4\n" + objects + b"<< /Type /Pages >>\nstartxref\n0\n%%EOF\n"


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()
