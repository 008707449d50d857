"""Open the tiers of an engine: measure, and put the parts together."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from agentkit_runtime.checks import require_instance, require_whole
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.tiers import measure
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.kv.tiers.breakeven import ComputeCost
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.disk_file import HEADER_BYTES, BlockShape
from agentkit_runtime.kv.tiers.disk_open import open_disk
from agentkit_runtime.kv.tiers.rows import RowStore
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from agentkit_runtime.kv.tiers.worth import BreakEven


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """How much to keep where."""

    host_bytes: int
    """Host memory for KV that left the device."""
    disk_folder: Path | None = None
    """Where KV is kept beyond the end of the process; None keeps none. For one engine at a time."""
    disk_bytes: int = 16 << 30
    """Most bytes of all files in that folder."""

    def __post_init__(self) -> None:
        for name in ("host_bytes", "disk_bytes"):
            require_whole(name, getattr(self, name), least=1)
        if self.disk_folder is not None:
            require_instance("disk_folder", self.disk_folder, Path)


class Pool(RowStore, Protocol):
    """A KV pool whose slots nobody uses yet."""

    format: KvFormat

    @property
    def n_slots(self) -> int:
        """Slots of the pool."""


def open_tiers(
    pool: Pool,
    options: TierOptions,
    *,
    identity: str,
    weights: int,
    compute_dtype: torch.dtype,
    timer: Callable[[], float] = time.perf_counter,
) -> HostAndDiskTiers:
    """Take the memory, open the folder, measure speeds. Overwrites slots of the pool.

    Args:
        pool: the KV pool, still empty.
        options: how much to keep where.
        identity: fingerprint of weights, adapter and compute dtype: blocks on disk are only read by
            an engine with the same one.
        weights: how many weights a token is multiplied with: each costs two operations.
        compute_dtype: what the model computes in.
        timer: seconds, for measurements.

    Raises:
        ValueError: not one block fits into the host memory, or on the disk.
    """
    shape = BlockShape(
        identity=_digest(identity, pool),
        kv_format=pool.format,
        bytes_per_token=pool.bytes_per_token,
    )
    disk: DiskStore | None = None
    disk_speed = measure.SLOWEST_DISK
    if options.disk_folder is not None:
        if options.disk_bytes < HEADER_BYTES + shape.n_bytes:
            raise ValueError(
                f"disk_bytes of {options.disk_bytes} do not hold the file of one block of "
                f"{BLOCK_TOKENS} tokens, which has {HEADER_BYTES + shape.n_bytes}"
            )
        disk = open_disk(options.disk_folder, shape, max_bytes=options.disk_bytes)
        if disk is not None:
            disk_speed = measure.disk_speed(disk.root, timer)
    worth = BreakEven(
        bytes_per_token=pool.bytes_per_token,
        host_speed=measure.host_speed(pool, pool.n_slots, timer),
        disk_speed=disk_speed,
        lower_bound=ComputeCost(2 * weights / measure.flops(pool.device, compute_dtype, timer)),
    )
    try:
        return HostAndDiskTiers(
            pool, host_bytes=options.host_bytes, worth=worth, disk=disk, timer=timer
        )
    except Exception:
        if disk is not None:
            disk.close()
        raise


def _digest(identity: str, pool: Pool) -> bytes:
    parts = (identity, str(pool.format), str(pool.bytes_per_token))
    framed = b"".join(len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts)
    return hashlib.sha256(b"agentkit-kv-disk/1" + framed).digest()
