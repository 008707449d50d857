"""What copies, reads and matrix products take here: measured once, in well under 200 ms."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.kv.tiers.rows import RowStore

Timer = Callable[[], float]

_log = logging.getLogger(__name__)

_COPY_BYTES = 8 << 20
_DISK_BYTES = 4 << 20
_FLOP_SIZE = 1024
_FLOP_ROWS = 256
SLOWEST_DISK = 1e6
"""Bytes per second of a disk that cannot be measured: too slow to fetch from until it is read."""


def host_speed(storage: RowStore, n_slots: int, timer: Timer) -> float:
    """Bytes per second from host memory into slots. The pool must be empty: slots are written."""
    n_tokens = min(n_slots, max(BLOCK_TOKENS, _COPY_BYTES // storage.bytes_per_token))
    extents = [Extent(0, n_tokens)]
    rows = storage.export(extents).cpu()
    storage.load(extents, rows)  # the first time gets memory from the operating system
    _settle(storage.device)
    began = timer()
    storage.load(extents, rows)
    _settle(storage.device)
    return rows.numel() / max(timer() - began, 1e-9)


def disk_speed(folder: Path, timer: Timer) -> float:
    """Bytes per second from a file that the operating system does not have in memory.

    Where it cannot be told to forget one, this is the speed of its memory.
    """
    path = folder / f"probe-{secrets.token_hex(8)}.part"
    try:
        with path.open("xb") as file:
            file.write(secrets.token_bytes(_DISK_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with path.open("rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            began = timer()
            n_bytes = len(file.read(_DISK_BYTES))
            return n_bytes / max(timer() - began, 1e-9)
    except OSError as error:
        _log.warning(
            "the KV disk cache in %s cannot be tried out (%s): it is taken to be slow, and nothing "
            "is kept there that is computed faster; make room, and start again",
            folder,
            error.strerror,
        )
        return SLOWEST_DISK
    finally:
        with suppress(OSError):
            path.unlink()


def flops(device: torch.device, dtype: torch.dtype, timer: Timer) -> float:
    """Floating-point operations per second of a matrix product of the size of a prefill's."""
    left = torch.ones((_FLOP_ROWS, _FLOP_SIZE), dtype=dtype, device=device)
    right = torch.ones((_FLOP_SIZE, _FLOP_SIZE), dtype=dtype, device=device)
    best = float("inf")
    for _ in range(3):
        _settle(device)
        began = timer()
        left @ right
        _settle(device)
        best = min(best, timer() - began)
    return 2 * _FLOP_ROWS * _FLOP_SIZE**2 / max(best, 1e-9)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
