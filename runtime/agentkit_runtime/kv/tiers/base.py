"""The seam between the cache and the slower tiers. No torch here.

A tier is no second tree. It is a store of blocks of `BLOCK_TOKENS` tokens, each named by a hash of
its namespace and of all tokens up to its end. So a block can never be read by another namespace or
behind another prefix, and tiers need not know what the tree does. The cache saves what it evicts,
and asks for the blocks that follow what the tree still has.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.stats import TierStats
from agentkit_runtime.kv.tokens import TOKEN_BYTES

BLOCK_TOKENS = 16
"""Tokens of a block, in tiers and in KV events: the grain that existing routers assume."""

BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES
"""Bytes of a block's packed tokens."""

_DOMAIN = b"agentkit-kv-block/1"


def first_parent(namespace: bytes) -> bytes:
    """The hash (32 bytes) that the first block of a namespace is chained to."""
    return hashlib.sha256(_DOMAIN + len(namespace).to_bytes(8, "little") + namespace).digest()


def block_hash(parent: bytes, tokens: bytes) -> bytes:
    """Name (32 bytes) of the block with these `BLOCK_BYTES` packed tokens behind `parent`."""
    return hashlib.sha256(parent + tokens).digest()


def chain(parent: bytes, tokens: bytes) -> list[bytes]:
    """Names of the whole blocks of `tokens`, which begin behind the block `parent`."""
    names: list[bytes] = []
    for start in range(0, len(tokens) - BLOCK_BYTES + 1, BLOCK_BYTES):
        parent = block_hash(parent, tokens[start : start + BLOCK_BYTES])
        names.append(parent)
    return names


class Medium(enum.StrEnum):
    """Where a block is, under the names that existing routers know."""

    DEVICE = "GPU"
    HOST = "CPU"
    DISK = "DISK"


@dataclass(frozen=True, slots=True)
class TierChange:
    """Blocks came to one medium, or left it. Other media are not affected."""

    medium: Medium
    stored: bool
    """False: removed."""
    names: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A whole block that is about to leave the device."""

    namespace: bytes
    name: bytes
    """See `block_hash`."""
    extents: tuple[Extent, ...]
    """The slots of its `BLOCK_TOKENS` tokens, in order of position."""
    index: int = 0
    """How many blocks precede it in its sequence: of what is saved together, the last leaves first.
    """


class Fetch(Protocol):
    """Blocks on their way to the device. Belongs to one caller."""

    @property
    def done(self) -> bool:
        """Nothing more will arrive: all blocks are here, or the first one that is not failed."""

    @property
    def n_blocks(self) -> int:
        """Leading blocks that have arrived and whose checksum is right. Final once `done`."""

    def load(self, extents: Sequence[Extent]) -> None:
        """Write the first blocks into these slots; as many as fit into them, in order.

        Raises ValueError unless the slots are a whole number of blocks, at most `n_blocks`.
        """

    def close(self) -> None:
        """Let go of the blocks. Idempotent; must be called, loaded or not."""


class Tiers(Protocol):
    """Host memory and disk, as the cache sees them. Called by the engine's thread only."""

    def save(self, blocks: Sequence[Block]) -> None:
        """Copy blocks out of their slots, which are given away right afterwards.

        Never raises: a block that cannot be copied is lost, as it would be without tiers, and
        counted. Blocks that are there already are not copied again.
        """

    def held(self, names: Sequence[bytes], *, cached_tokens: int = 0) -> int:
        """How many leading blocks are worth fetching now; 0 when computing them is faster.

        `cached_tokens` precede them: attention over them makes computing slower.
        """

    def fetch(self, names: Sequence[bytes]) -> Fetch:
        """Begin to bring blocks that `held` promised. Returns at once."""

    def forget(self, namespace: bytes | None = None) -> int:
        """Drop all blocks of one namespace, or all; returns how many. Fetches under way end."""

    def forget_blocks(self, names: Sequence[bytes]) -> int:
        """As `forget`, for these blocks; unknown names are ignored. Fetches that bring one end."""

    def note_prefill(self, n_tokens: int, seconds: float, *, context: int = 0) -> None:
        """A step computed so many prompt tokens in this time: what fetching is compared with.

        `context` is the mean number of tokens that preceded each of them.
        """

    def listen(self, listener: Callable[[TierChange], None] | None) -> None:
        """Tell `listener` of every change, in the caller's thread and during calls of this object.

        What threads did since the last call is told at the next one. What the listener raises is
        logged.
        """

    def stats(self) -> TierStats:
        """What is there, and what happened so far."""

    def flush(self) -> int:
        """Wait until what was saved outlives the process, as far as it can.

        For a caller that is about to end: this is the one call that waits for a disk.

        Returns:
            How many blocks can be saved before the next flush without losing one; 0 where nothing
            outlives the process.
        """

    def close(self) -> None:
        """Finish writing, end the threads. Idempotent."""
