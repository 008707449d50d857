"""The key that names namespaces, kept beside the disk tier or where the operator says.

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
    try:
        return load_or_create_key_file(key_file(folder))
    except OSError as error:
        raise _unusable(folder, error) from error


def load_or_create_key_file(path: Path) -> bytes:
    """The key in the file `path`. As `load_or_create_key`."""
    try:
        return _load(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _written(path, secrets.token_bytes(KEY_BYTES)) as part:
        with suppress(FileExistsError):  # another process was faster: its key counts
            os.link(part, path)
    return _load(path)


def key_file(folder: Path) -> Path:
    """Where the key of a disk tier in `folder` is kept."""
    return folder / _NAME


def replace_key(path: Path, key: bytes) -> None:
    """Keep another key in the file `path`. Blocks on disk are not found under it.

    Raises:
        ValueError: it is not of the right length.
        OSError: it cannot be written; then the old one is still there.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"a key that is kept must have {KEY_BYTES} bytes, got {len(key)}; "
            f"use secrets.token_bytes({KEY_BYTES})"
        )
    with _written(path, key) as part:
        os.replace(part, path)


@contextmanager
def _written(path: Path, key: bytes) -> Iterator[Path]:
    """A file with the key, on the disk, under a name of its own; gone afterwards unless moved."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
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
