"""A pool of rows, and chains of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Block, Medium, block_hash, first_parent
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.disk_file import BlockShape
from agentkit_runtime.kv.tiers.disk_open import open_disk
from agentkit_runtime.kv.tiers.fetch import TierFetch
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from bench.by_hand import ByHand

ROW = 8
BLOCK = BLOCK_TOKENS * ROW
SHAPE = BlockShape(identity=b"i" * 32, kv_format="float32", bytes_per_token=ROW)


class Pool:
    """Rows that tests can look at; `export` fails on demand."""

    def __init__(self, n_slots: int = 4_096) -> None:
        self.rows = torch.zeros((n_slots, ROW), dtype=torch.uint8)
        self.fails = False
        self.exports = 0

    bytes_per_token = ROW
    device = torch.device("cpu")

    def export(self, extents: Sequence[Extent]) -> Tensor:
        if self.fails:
            raise RuntimeError("no memory")
        self.exports += 1
        return torch.cat([self.rows[run.start : run.end] for run in extents])

    def load(self, extents: Sequence[Extent], rows: Tensor) -> None:
        at = 0
        for run in extents:
            self.rows[run.start : run.end] = rows[at : at + run.length]
            at += run.length
        assert at == rows.shape[0]


@dataclass
class Always:
    """Everything is worth it, unless a test says otherwise."""

    cheap: set[Medium] = field(default_factory=set)
    notes: list[tuple[str, int]] = field(default_factory=list)

    def fetching(self, media: Sequence[Medium], *, cached_tokens: int) -> int:
        return len(media)

    def saving(self, medium: Medium, *, index: int) -> bool:
        return medium not in self.cheap

    def note_prefill(self, n_tokens: int, seconds: float, context: int) -> None:
        self.notes.append(("prefill", n_tokens))

    def note_load(self, n_tokens: int, seconds: float) -> None:
        self.notes.append(("load", n_tokens))

    def note_disk_read(self, n_blocks: int, seconds: float) -> None:
        self.notes.append(("disk", n_blocks))


def names_of(namespace: bytes, prompt: bytes) -> list[bytes]:
    """Names of a sequence with one byte for each block."""
    names, parent = [], first_parent(namespace)
    for token in prompt:
        parent = block_hash(parent, bytes([token]) * 64)
        names.append(parent)
    return names


def content(name: bytes) -> Tensor:
    """The rows that a block of this name has."""
    return torch.frombuffer(bytearray(name * (BLOCK // len(name))), dtype=torch.uint8).view(-1, ROW)


def arrive(tiers: HostAndDiskTiers, fetch: TierFetch) -> None:
    """Wait until threads have brought all that can be brought."""
    while not fetch.done:
        tiers._readers.submit(int).result(20)


def on_device(pool: Pool, namespace: bytes, prompt: bytes, *, first_slot: int = 0) -> list[Block]:
    """Compute a sequence into neighbouring slots; its blocks in order."""
    blocks = []
    for index, name in enumerate(names_of(namespace, prompt)):
        extent = Extent(first_slot + index * BLOCK_TOKENS, BLOCK_TOKENS)
        pool.rows[extent.start : extent.end] = content(name)
        blocks.append(Block(namespace, name, (extent,), index))
    return blocks


def disk_in(folder: Path, *, max_blocks: int = 1_000, shape: BlockShape = SHAPE) -> DiskStore:
    """Open a disk tier that must open."""
    disk = open_disk(folder, shape, max_bytes=max_blocks * (shape.n_bytes + 150))
    assert disk is not None
    return disk


@dataclass
class Bench:
    """Tiers over a pool, with threads that tests run by hand."""

    tiers: HostAndDiskTiers
    pool: Pool
    writer: ByHand
    readers: ByHand
    worth: Always

    def save(self, namespace: bytes, prompt: bytes) -> list[bytes]:
        """Save a sequence; returns the names of its blocks. The slots are overwritten at once."""
        self.tiers.save(on_device(self.pool, namespace, prompt))
        self.pool.rows.fill_(255)
        return names_of(namespace, prompt)

    def store(self, namespace: bytes, prompt: bytes) -> list[bytes]:
        """As `save`, and write all of it to disk, however short the queue is."""
        names = self.save(namespace, prompt)
        while self.writer.waiting:
            self.writer.run()
            self.save(namespace, prompt)
        return names

    def restore(self, names: Sequence[bytes]) -> list[bytes]:
        """Fetch what is held and load it; returns the names of the blocks that came, verified."""
        held = self.tiers.held(names)
        fetch = self.tiers.fetch(names[:held])
        self.readers.run()
        assert fetch.done
        n = fetch.n_blocks
        first = 17
        fetch.load([Extent(first, n * BLOCK_TOKENS)] if n else [])
        fetch.close()
        for index, name in enumerate(names[:n]):
            begin = first + index * BLOCK_TOKENS
            assert torch.equal(self.pool.rows[begin : begin + BLOCK_TOKENS], content(name))
        return list(names[:n])


def bench(
    *, host_blocks: int = 100, disk: DiskStore | None = None, pool: Pool | None = None
) -> Bench:
    """Make tiers for a test."""
    pool, writer, readers, worth = pool or Pool(), ByHand(), ByHand(), Always()
    tiers = HostAndDiskTiers(
        pool,
        host_bytes=host_blocks * BLOCK,
        worth=worth,
        disk=disk,
        writer=writer,
        readers=readers,
    )
    return Bench(tiers, pool, writer, readers, worth)
