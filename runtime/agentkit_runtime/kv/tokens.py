"""Token runs as bytes: little-endian int32, four bytes a token.

Bytes compare at memory speed (`startswith`) and hash well, so a prefix is never compared one Python
integer at a time.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

import numpy as np

TOKEN_BYTES = 4
"""Bytes of one token."""


def pack(token_ids: Iterable[int]) -> bytes:
    """Token ids as bytes. Raises OverflowError for an id that is no int32."""
    packed = array("i", token_ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(tokens: bytes) -> list[int]:
    """The ids of a packed run."""
    require_whole_tokens(tokens)
    ids = array("i", tokens)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tolist()


def count(tokens: bytes | bytearray) -> int:
    """Tokens in a packed run."""
    return len(tokens) // TOKEN_BYTES


def require_whole_tokens(tokens: bytes) -> None:
    """Raise ValueError when `tokens` ends inside a token."""
    if len(tokens) % TOKEN_BYTES:
        raise ValueError(
            f"packed tokens must be a multiple of {TOKEN_BYTES} bytes long, got {len(tokens)!r}; "
            "build them with tokens.pack"
        )


def common_prefix(tokens: bytes | bytearray, offset: int, edge: bytes | bytearray) -> int:
    """How many leading tokens of `edge` equal those of `tokens` from byte `offset` on.

    Both runs must be non-empty there. Nothing is copied.
    """
    n_tokens = min(len(tokens) - offset, len(edge)) // TOKEN_BYTES
    left = np.frombuffer(tokens, np.int32, n_tokens, offset)
    right = np.frombuffer(edge, np.int32, n_tokens)
    differs = left != right
    first = int(differs.argmax())
    return first if differs[first] else n_tokens
