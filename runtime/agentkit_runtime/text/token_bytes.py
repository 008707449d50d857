"""Which bytes a token stands for, in the two ways in which vocabularies write bytes down."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

BytesStyle = Literal["byte-level", "metaspace"]
"""`byte-level`: GPT-2's alphabet of 256 printable characters. `metaspace`: U+2581 for a space and
`<0x0A>` for a byte that has no token (SentencePiece)."""


def byte_level_bytes(piece: str) -> bytes:
    """Bytes of a GPT-2 style piece; one with a character outside the alphabet is literal text."""
    try:
        return bytes([_BYTE_OF[character] for character in piece])
    except KeyError:
        return piece.encode("utf-8")


def metaspace_bytes(piece: str) -> bytes:
    """Bytes of a SentencePiece style piece."""
    if match := _BYTE_PIECE.fullmatch(piece):
        return bytes([int(match[1], 16)])
    return piece.replace("\u2581", " ").encode("utf-8")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's bijection: printable Latin-1 is itself, the other bytes count up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet |= {chr(0x100 + rank): byte for rank, byte in enumerate(others)}
    return alphabet


DECODERS: Mapping[BytesStyle, Callable[[str], bytes]] = MappingProxyType(
    {"byte-level": byte_level_bytes, "metaspace": metaspace_bytes}
)

_BYTE_OF: Mapping[str, int] = MappingProxyType(byte_alphabet())
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
