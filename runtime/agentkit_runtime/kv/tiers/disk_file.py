"""One block as a file: a header that says whose it is, a checksum, and the rows.

All that a reader needs is known before the file is opened, so the header is not parsed but
compared: a flipped bit, another identity or another version can only differ. CRC-32 covers header
and rows: it finds every flip of up to 32 neighbouring bits and all but one in 4e9 other damages, at
four times the speed of a cryptographic hash. It is no protection against somebody who may write in
the folder; the folder's permissions are.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS

VERSION = 1
"""Of the layout. A file of another version is never read."""

_MAGIC = b"AGKITKV\0"
_FIELDS = struct.Struct("<8sHH16s32s32s32sQ")
_CRC = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CRC.size
"""Bytes before the rows."""


class UnreadableBlock(Exception):
    """A file is not the block that its name promises."""


def namespace_tag(namespace: bytes) -> bytes:
    """What stands for a namespace on disk (32 bytes).

    Not the digest itself: block names are hashes over it and tokens, so who knew it could test
    guesses of a prompt against the names of files.
    """
    return hashlib.sha256(b"agentkit-kv-namespace-tag/1" + namespace).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """What all blocks of one engine have in common."""

    identity: bytes
    """Digest (32 bytes) of all that the numbers depend on besides tokens and namespace."""
    kv_format: str
    """`kv.format.KvFormat`: at most 16 bytes."""
    bytes_per_token: int

    @property
    def n_bytes(self) -> int:
        """Bytes of a block's rows."""
        return BLOCK_TOKENS * self.bytes_per_token

    def fields(self, tag: bytes, name: bytes) -> bytes:
        """The header of one block, without its checksum."""
        return _FIELDS.pack(
            _MAGIC,
            VERSION,
            BLOCK_TOKENS,
            self.kv_format.encode("ascii"),
            self.identity,
            tag,
            name,
            self.n_bytes,
        )


def header_of(fields: bytes, rows: memoryview) -> bytes:
    """The whole header: `fields` and the checksum over them and `rows`."""
    return fields + _CRC.pack(zlib.crc32(rows, zlib.crc32(fields)))


def read_block(path: Path, fields: bytes, into: memoryview) -> None:
    """Read a block's rows into a buffer of exactly their length.

    Raises:
        UnreadableBlock: the file has another length, another header, or is damaged.
        OSError: it cannot be read.
    """
    header = bytearray(HEADER_BYTES)
    with path.open("rb", buffering=0) as file:
        n_header, n_rows = _fill(file, memoryview(header)), _fill(file, into)
        too_long = bool(file.read(1))
    if n_header != len(header) or n_rows != len(into) or too_long:
        raise UnreadableBlock(f"{path.name} does not have {HEADER_BYTES + len(into)} bytes")
    if bytes(header) != header_of(fields, into):
        raise UnreadableBlock(f"{path.name} is damaged, or was written for something else")


def _fill(file: FileIO, buffer: memoryview) -> int:
    """Read until the buffer is full or the file ends; returns bytes read."""
    done = 0
    while done < len(buffer):
        n = file.readinto(buffer[done:])
        if not n:
            break
        done += n
    return done
