"""How much memory this process may still take, and what of it the KV pool takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Where Linux says what a container may use and does use (cgroup v2)."""

MEMINFO = Path("/proc/meminfo")

HOST_SHARE = 0.25
"""Part of the free memory of a machine that the pool takes when nothing is said: others work
there, too."""
DEVICE_SHARE = 0.9
"""Part of an accelerator's free memory; the rest is for activations."""
MOST_HOST_SLOTS = 65_536
"""Upper bound of the default pool in host memory, in tokens."""
FEWEST_SLOTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """How large the KV pool is, and why."""

    slots: int
    """Tokens."""
    bytes_per_token: int
    kv_dtype: str
    free_bytes: int | None
    """Memory that was free, weights being loaded; None when it was not asked."""
    chosen_by: str
    """`max_slots`, or the rule that decided."""

    def __str__(self) -> str:
        size = _gigabytes(self.slots * self.bytes_per_token)
        free = "" if self.free_bytes is None else f" of {_gigabytes(self.free_bytes)} free"
        return (
            f"KV pool: {self.slots:,} tokens in {self.kv_dtype}, {size}{free} "
            f"({self.bytes_per_token:,} bytes per token; {self.chosen_by})"
        )


def chosen_size(slots: int, *, bytes_per_token: int, kv_dtype: str) -> PoolSize:
    """A pool as large as the caller said."""
    return PoolSize(
        slots=slots,
        bytes_per_token=bytes_per_token,
        kv_dtype=kv_dtype,
        free_bytes=None,
        chosen_by="max_slots",
    )


def fitting_size(
    free_bytes: int, *, bytes_per_token: int, kv_dtype: str, on_host: bool
) -> PoolSize:
    """A pool that fits into free memory, with room for others."""
    share = HOST_SHARE if on_host else DEVICE_SHARE
    slots, chosen_by = int(free_bytes * share) // bytes_per_token, f"{share:.0%} of free memory"
    if on_host and slots > MOST_HOST_SLOTS:
        slots, chosen_by = MOST_HOST_SLOTS, "the default's upper bound; max_slots takes more"
    if slots < FEWEST_SLOTS:
        slots, chosen_by = FEWEST_SLOTS, "the fewest that are of use"
    return PoolSize(
        slots=slots,
        bytes_per_token=bytes_per_token,
        kv_dtype=kv_dtype,
        free_bytes=free_bytes,
        chosen_by=chosen_by,
    )


def free_host_bytes() -> int:
    """Memory that is free on this machine, or in its container if that is less."""
    limits = [_available(), _left_in_container()]
    return min(limit for limit in limits if limit is not None)


def _available() -> int:
    """What the kernel could give without swapping; all there is where it does not say."""
    for line in _lines(MEMINFO):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_in_container() -> int | None:
    """What the container's limit leaves; None without one. File pages can be taken back."""
    limit = "".join(_lines(CGROUP / "memory.max")).strip()
    if not limit.isdecimal():
        return None
    used = "".join(_lines(CGROUP / "memory.current")).strip()
    pages = dict(line.split() for line in _lines(CGROUP / "memory.stat") if line.count(" ") == 1)
    kept = max(0, int(used or 0) - int(pages.get("inactive_file", 0)))
    return max(0, int(limit) - kept)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except OSError:
        return []


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.2f} GB"
