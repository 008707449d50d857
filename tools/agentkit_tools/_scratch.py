"""A folder for one program, of which nothing is left afterwards, for `_jail` without namespaces.

A supervisor holds a lock on its folder. What a killed one has left has no such lock, and is removed
by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator

_PREFIX = "agentkit-python-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def scratch_folder() -> Iterator[tuple[str, int]]:
    """A new folder, and the descriptor that holds its lock.

    Raises:
        OSError: none can be made.
    """
    _remove_forgotten()
    path, lock = _locked()
    try:
        yield path, lock
    finally:
        remove(path)
        os.close(lock)


def remove(folder: str) -> None:
    """Remove a folder with all in it, as far as that can be done.

    What lies deeper is moved up first, and removed from there: so nothing is too deep to be named,
    however a hostile program has nested it. What it has closed to its own user is opened.
    """
    with contextlib.suppress(OSError):
        top = os.open(folder, _FOLDER)
        try:
            waiting = _emptied(top, top)
            while waiting:
                name = waiting.pop()
                with contextlib.suppress(OSError):
                    _make_accessible(name, top)
                    waiting += _without_children(name, top)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(folder)


def _without_children(name: str, top: int) -> list[str]:
    inner = os.open(name, _FOLDER, dir_fd=top)
    try:
        return _emptied(inner, top)
    finally:
        os.close(inner)


def _emptied(folder: int, top: int) -> list[str]:
    """Delete the files of a folder, and move its folders to the top; returns their names there."""
    with os.scandir(folder) as scanned:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scanned]
    moved: list[str] = []
    for name, is_folder in entries:
        with contextlib.suppress(OSError):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif folder == top:
                moved.append(name)
            else:
                _make_accessible(name, folder)  # or it could not be moved
                new = secrets.token_hex(16)
                os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(new)
    return moved


def _make_accessible(name: str, folder: int) -> None:
    # Root needs it not, and might be given a link to somebody's file.
    if os.getuid():
        os.chmod(name, 0o700, dir_fd=folder)


def _locked() -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        with contextlib.suppress(FileNotFoundError):  # taken for a forgotten one before the lock
            lock = os.open(path, _FOLDER)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.exists(path):
                return path, lock
            os.close(lock)


def _remove_forgotten() -> None:
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        if name.startswith(_PREFIX):
            with contextlib.suppress(OSError):
                _remove_if_forgotten(os.path.join(parent, name))


def _remove_if_forgotten(path: str) -> None:
    lock = os.open(path, _FOLDER)
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
    finally:
        os.close(lock)
