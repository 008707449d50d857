"""Get a folder for the disk tier, or do without."""

from __future__ import annotations

import logging
from pathlib import Path

import filelock

from agentkit_runtime.kv.tiers.disk import PART_SUFFIX, DiskStore
from agentkit_runtime.kv.tiers.disk_file import VERSION, BlockShape

_log = logging.getLogger(__name__)


def open_disk(folder: Path, shape: BlockShape, *, max_bytes: int) -> DiskStore | None:
    """Open or create the disk tier in `folder`; None, and a warning in the log, when that fails.

    Also None while another process (or engine) has it.
    """
    root = folder / f"kv-{VERSION}"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.chmod(0o700)  # whoever may write there could change what models remember
        lock = filelock.FileLock(root / ".lock", thread_local=False)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        _log.warning(
            "the KV disk cache in %s is in use by another engine; this one runs without disk: "
            "give it a folder of its own",
            folder,
        )
        return None
    except OSError as error:
        _log.warning("no KV disk cache in %s, running without disk: %s", folder, error)
        return None
    try:
        for part in root.glob(f"*{PART_SUFFIX}"):
            part.unlink()
        return DiskStore(root, shape, max_bytes=max_bytes, lock=lock)
    except OSError as error:
        lock.release()
        _log.warning("no KV disk cache in %s, running without disk: %s", folder, error)
        return None
