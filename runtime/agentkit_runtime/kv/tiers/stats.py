"""What the tiers did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStats:
    """A snapshot. Counts are since start, in blocks unless their name says otherwise."""

    host_blocks: int
    host_bytes: int
    """Taken by these blocks, of `host_max_bytes`."""
    host_max_bytes: int
    disk_blocks: int
    disk_bytes: int
    """Of all files in the folder, also those of other models; of `disk_max_bytes`."""
    disk_max_bytes: int
    """0 where there is no disk tier."""
    saved: int
    """Copied from the device to host memory."""
    written: int
    """Copied from host memory to disk."""
    written_bytes: int
    hits_host: int
    """Fetched from host memory."""
    hits_disk: int
    """Fetched from disk, read and verified."""
    misses: int
    """Times that `held` was asked and the first block was not there."""
    declined: int
    """Times that `held` was asked, blocks were there, and computing them was taken to be faster."""
    skipped_cheap: int
    """Not saved or not written, because computing them again is faster than reading them."""
    skipped_busy: int
    """Not saved or not written, because too much was under way."""
    failures: int
    """Could not be copied, written or read."""
    restored_tokens: int
    """Loaded into slots."""


@dataclass(slots=True)
class Counters:
    """Those of `TierStats` that the engine's thread counts."""

    saved: int = 0
    hits_host: int = 0
    misses: int = 0
    declined: int = 0
    skipped_cheap: int = 0
    skipped_busy: int = 0
    failures: int = 0
    restored_tokens: int = 0
