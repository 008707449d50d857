"""Writing a file whole or not at all: who reads meanwhile gets the old one or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NEW = ".new-"
_LEFT_S = 3_600.0
"""Nobody writes a file for longer than this: what is older was left by a process that was killed.
"""


@contextmanager
def whole_file(target: Path, *, is_private: bool = False, is_new: bool = False) -> Iterator[Path]:
    """Yield a path beside `target` to write to. If the block ends well, it is put in its place.

    Otherwise `target` stays as it was, and nothing is left. What processes have left that were
    killed in such a block is removed by the next one for the same target.

    Args:
        target: the file, which may be there.
        is_private: whether only this user may read it. Nothing is at the path before otherwise.
        is_new: whether what somebody else has put there meanwhile stays.

    Raises:
        FileExistsError: with `is_new`, there is a file by now.
        OSError: of the block, or because the file cannot be put in its place.
    """
    unfinished = target.with_name(f".{target.name}{_NEW}{uuid.uuid4().hex[:12]}")
    remove_unfinished(target.parent, target.name)
    try:
        if is_private:
            os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield unfinished
        if is_new:
            _place_new(unfinished, target)
        else:
            os.replace(unfinished, target)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove what processes have left that were killed while they wrote files of a folder.

    Args:
        folder: where `whole_file` was used.
        name: of the target; None: of any.
    """
    start, before_s = "." if name is None else f".{name}{_NEW}", time.time() - _LEFT_S
    with contextlib.suppress(OSError):
        for each in os.scandir(folder):
            if each.name.startswith(start) and _NEW in each.name:
                _remove_if_older(each, before_s)


def _place_new(unfinished: Path, target: Path) -> None:
    try:
        os.link(unfinished, target)  # of several, one succeeds
    except OSError:  # or the file system has no links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.replace(unfinished, target)  # says what else is wrong


def _remove_if_older(file: os.DirEntry[str], before_s: float) -> None:
    with contextlib.suppress(OSError):
        is_old = file.stat(follow_symlinks=False).st_mtime < before_s
        if is_old and file.is_file(follow_symlinks=False):
            os.unlink(file.path)
