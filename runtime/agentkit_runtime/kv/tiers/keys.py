"""The key that names namespaces, kept beside the disk tier.

What is on disk is found again after a restart only when namespaces get the same names, so the key
must be the same. It is no more secret than the blocks: who can read the folder can read both.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _written(folder, secrets.token_bytes(KEY_BYTES)) as part:
            with suppress(FileExistsError):  # another process was faster: its key counts
                os.link(part, path)
    except OSError as error:
        raise _unusable(folder, error) from error
    return _load(path)


def replace_key(folder: Path, key: bytes) -> None:
    """Keep another key in `folder`. Blocks that lie there are not found under it.

    Raises:
        ValueError: it is not of the right length.
        OSError: it cannot be written; then the old one is still there.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"beside a disk cache the key must have {KEY_BYTES} bytes, got {len(key)}; "
            f"use secrets.token_bytes({KEY_BYTES})"
        )
    with _written(folder, key) as part:
        os.replace(part, folder / _NAME)


@contextmanager
def _written(folder: Path, key: bytes) -> Iterator[Path]:
    """A file with the key, on the disk, under a name of its own; gone afterwards unless moved."""
    part = folder / f"{_NAME}.{secrets.token_hex(8)}"
    try:
        with open(part, "xb", opener=private) as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)


def _unusable(folder: Path, error: OSError) -> OSError:
    return type(error)(
        error.errno,
        f"disk_cache cannot be used ({error.strerror}): choose a folder that can be written",
        str(folder),
    )


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
