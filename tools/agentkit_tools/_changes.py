"""Changes below one root: files that are written whole or not at all, folders, moves, deletions.

As in `_root`, every name is resolved relative to an open folder and no link is followed. A file is
written beside its place and then put there by its name: what the name meant before (a link that
was swapped in, a hard link that leads outside) is replaced and never written through.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator

from agentkit_tools._errors import Refused
from agentkit_tools._paths import Entry, Kind, NotFound
from agentkit_tools._root import MAX_DEPTH, Content, Root, entry_at, state_of
from agentkit_tools._writable_names import check_depth, check_new, check_untouchable

MAX_DELETED_ENTRIES = 1000
"""Folders with more in them are not deleted in one call."""

_PART_SUFFIX = ".agentkit-part"
_NO_HARD_LINKS = {errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def create(root: Root, path: str, data: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        Refused: something has this name, the name is not allowed, or writing failed.
    """
    parts = _named(root, path)
    with root.open_folder(parts[:-1], path) as folder:
        there = _entry_or_none(folder, parts, path)
        if there is not None:
            raise Refused(_is_there(there, path))
        check_new(parts, path)
        with _changing(path), _part(folder, data, mode=None) as part:
            _put_new(folder, part, folder, parts[-1])


def replace(root: Root, path: str, data: bytes, old: Content | None = None) -> None:
    """Write a file that is there, and keep its permissions.

    With `old`, only if the file is still as it was when that was read. Between that last look and
    the writing lies an instant in which another process can still get in.

    Raises:
        Refused: no such file, it has changed, or writing failed. It is then as it was.
    """
    parts = _named(root, path)
    with root.open_folder(parts[:-1], path) as folder:
        _check_file(entry_at(folder, parts[:-1], parts[-1], path), path)
        with _changing(path):
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            mode = stat.S_IMODE(status.st_mode) & 0o777
            with _part(folder, data, mode) as part:
                if old is not None and _state(folder, parts[-1]) != old.state:
                    raise Refused(
                        f"{path!r} has been changed by somebody else meanwhile; read it again"
                    )
                os.rename(part, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)


def make_folder(root: Root, path: str) -> bool:
    """Make a folder and those above it. Whether there was something to make.

    Raises:
        Refused: a component is no folder, a name is not allowed, or making it failed.
    """
    parts = root.parts(path)
    check_untouchable(parts, path)
    is_new = False
    check_depth(parts, path)
    for depth in range(1, len(parts) + 1):
        with root.open_folder(parts[: depth - 1], path) as folder:
            if _entry_or_none(folder, parts[:depth], path) is None:
                check_new(parts[:depth], path)
                with _changing(path), contextlib.suppress(FileExistsError):
                    os.mkdir(parts[depth - 1], dir_fd=folder)
                is_new = True
    with root.open_folder(parts, path):
        return is_new


def move(root: Root, path: str, to: str, *, overwrite: bool) -> None:
    """Give a file or folder another path. Only a file can be overwritten, and only by a file.

    Raises:
        Refused: no such file or folder, the new path is taken or not allowed, or moving failed.
    """
    old, new = _named(root, path), _named(root, to)
    if new[: len(old)] == old:
        raise Refused(f"{path!r} cannot be moved to itself or into itself, {to!r}")
    with (
        root.open_folder(old[:-1], path) as source,
        root.open_folder(new[:-1], to) as target,
    ):
        entry = entry_at(source, old[:-1], old[-1], path)
        if entry.kind in ("link", "special"):
            raise Refused(f"{path!r} is a {entry.kind}; only files and folders are moved")
        there = _entry_or_none(target, new, to)
        if there is None:
            check_new(new, to)
        elif not (overwrite and entry.kind == there.kind == "file"):
            raise Refused(_is_there(there, to))
        elif there.state[:2] == entry.state[:2]:
            # A rename would do nothing, in silence.
            raise Refused(f"{path!r} and {to!r} are the same file already; nothing was moved")
        with _changing(path):
            if there is None and entry.kind == "file":
                _put_new(source, old[-1], target, new[-1])
            else:
                os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)


def delete(root: Root, path: str, *, recursive: bool) -> Kind:
    """Delete a file, a link (not what it leads to), an empty folder; with `recursive` any folder.

    Raises:
        Refused: nothing to delete, a folder that is not empty or too large, or deleting failed.
    """
    parts = _named(root, path)
    with root.open_folder(parts[:-1], path) as folder:
        entry = entry_at(folder, parts[:-1], parts[-1], path)
        if entry.kind == "special":
            raise Refused(f"{path!r} is a pipe, socket or device and is not deleted")
        if entry.kind == "folder" and recursive:
            _check_deletable(root, path, parts)
        with _changing(path):
            if entry.kind != "folder":
                os.unlink(parts[-1], dir_fd=folder)
            elif recursive:
                shutil.rmtree(parts[-1], dir_fd=folder)
            else:
                os.rmdir(parts[-1], dir_fd=folder)
    return entry.kind


@contextlib.contextmanager
def _part(folder: int, data: bytes, mode: int | None) -> Iterator[str]:
    """The name of a complete file beside its place. It is gone at the end, unless renamed."""
    name = f".{secrets.token_hex(8)}{_PART_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        yield name
        with contextlib.suppress(OSError):
            os.fsync(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _put_new(source: int, name: str, target: int, new_name: str) -> None:
    """Move a file to a name that nothing has. A name that was taken meanwhile is an error."""
    try:
        os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # A file system without hard links cannot refuse a taken name: the look before must do.
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
    else:
        try:
            os.unlink(name, dir_fd=source)
        except OSError:
            # The file may not leave its folder: then it must not have a second place either.
            with contextlib.suppress(OSError):
                if _state(source, name)[:2] == _state(target, new_name)[:2]:
                    os.unlink(new_name, dir_fd=target)
            raise


def _state(folder: int, name: str) -> tuple[int, ...]:
    return state_of(os.stat(name, dir_fd=folder, follow_symlinks=False))


def _entry_or_none(folder: int, parts: tuple[str, ...], path: str) -> Entry | None:
    try:
        return entry_at(folder, parts[:-1], parts[-1], path)
    except NotFound:
        return None


def _named(root: Root, path: str) -> tuple[str, ...]:
    parts = root.parts(path)
    if not parts:
        raise Refused("'.' is the root folder, which stays as it is; name something in it")
    check_untouchable(parts, path)
    return parts


def _check_file(entry: Entry, path: str) -> None:
    if entry.kind != "file":
        raise Refused(f"{path!r} is a {entry.kind} and cannot be overwritten; use another path")


def _check_deletable(root: Root, path: str, parts: tuple[str, ...]) -> None:
    """Refuse to delete a folder that is large, deep, or holds a repository."""
    for number, entry in enumerate(root.walk(path), start=1):
        if number > MAX_DELETED_ENTRIES:
            raise Refused(
                f"{path!r} holds more than {MAX_DELETED_ENTRIES} files and folders; "
                "delete the folders in it one by one"
            )
        check_untouchable(tuple(entry.path.split("/")), entry.path)
        if entry.path.count("/") - len(parts) >= MAX_DEPTH - 1:
            raise Refused(f"{path!r} is too deep; delete the folders in it first")


def _is_there(entry: Entry, path: str) -> str:
    if entry.kind == "file":
        return f"{path!r} is there already; set overwrite to replace it"
    return f"{path!r} is a {entry.kind} that is there already; use another path"


@contextlib.contextmanager
def _changing(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise Refused(f"{path!r}: somebody else has just made what is there; look again") from None
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise Refused(f"{path!r} is not empty; set recursive to delete all in it") from None
        raise Refused(f"{path!r} cannot be changed: {error.strerror or error}") from None
