"""The key that names namespaces, kept beside the disk tier.

What is on disk is found again after a restart only when namespaces get the same names, so the key
must be the same. It is no more secret than the blocks: who can read the folder can read both.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

KEY_BYTES = 32
"""Length of a key."""

_NAME = "namespace.key"


def load_or_create_key(folder: Path) -> bytes:
    """The key in `folder`, made there (readable by its owner only) when there is none.

    Two processes that start at once get the same key.

    Raises:
        ValueError: the file is not a key.
        OSError: it can neither be read nor be made.
    """
    path = folder / _NAME
    try:
        return _load(path)
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f"{_NAME}.{secrets.token_hex(8)}"
    try:
        with open(part, "xb", opener=private) as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster: its key counts
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
    return _load(path)


def _load(path: Path) -> bytes:
    with path.open("rb") as file:
        with suppress(PermissionError):  # somebody else's file, and theirs to guard
            os.fchmod(file.fileno(), 0o600)
        key = file.read()
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"{path} must hold a key of {KEY_BYTES} bytes, but has {len(key)}: delete it to get a "
            "new one (the blocks on disk are then not found any more)"
        )
    return key


def private(path: str, flags: int) -> int:
    """An `opener` for files that only their owner may read."""
    return os.open(path, flags, 0o600)
