"""One folder, and nothing outside it.

Paths are walked from an open descriptor of the root, one component at a time, and never through a
link (`openat` with `O_NOFOLLOW`). So a path cannot be checked as one thing and opened as another,
whoever swaps files and links meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentkit_tools._errors import Refused
from agentkit_tools._names import shown_name
from agentkit_tools._paths import (
    Entry,
    NotFound,
    check_readable,
    kind_of,
    not_a_folder,
    split,
    too_large,
    translated,
)

MAX_DEPTH = 64
"""Folders that lie deeper are listed and not entered."""

_LOOKED_AT_ONCE = 1000

_DIRECTORY = (
    os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
)
# O_NONBLOCK: should a regular file be swapped for a pipe after the check, the open must not wait.
_FILE = (
    os.O_RDONLY
    | os.O_CLOEXEC
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
)


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held, and which file in which state that was."""

    data: bytes
    state: tuple[int, ...]


class Root:
    """An open root folder. Close it when done, or use it as a context manager.

    Raises:
        OSError: the folder does not exist or cannot be opened.
        NotImplementedError: the platform cannot open relative to a descriptor (Windows).
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise NotImplementedError(
                "files below one root need a POSIX system; on Windows use WSL"
            )
        # The root itself may be reached over links: whoever starts the server chose it.
        self._fd = os.open(Path(folder).resolve(strict=True), _DIRECTORY)

    def close(self) -> None:
        """Close the root's descriptor."""
        os.close(self._fd)

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def parts(self, path: str) -> tuple[str, ...]:
        """The components of a path by their real names; it may have them as they are shown.

        Raises:
            Refused: as `split`.
        """
        parts = split(path)
        for index, part in enumerate(parts):
            if "\\" in part:
                parts = (*parts[:index], self._real(parts[:index], part), *parts[index + 1 :])
        return parts

    def entry(self, path: str) -> Entry:
        """What a path names.

        Raises:
            Refused: the path leads outside, over a link, or to nothing.
        """
        parts = self.parts(path)
        if not parts:
            return Entry(".", "folder", 0)
        with self.open_folder(parts[:-1], path) as folder:
            return entry_at(folder, parts[:-1], parts[-1], path)

    def read(self, path: str, max_bytes: int) -> bytes:
        """The content of a regular file.

        Raises:
            Refused: no such file, no regular file, more than `max_bytes`, or not readable.
        """
        return self.content(path, max_bytes).data

    def content(self, path: str, max_bytes: int) -> Content:
        """As `read`, with what is needed to see whether the file has changed since.

        Raises:
            Refused: as `read`.
        """
        parts = self.parts(path)
        if not parts:
            raise Refused("'.' is a folder; list it with list_files")
        with self.open_folder(parts[:-1], path) as folder:
            check_readable(entry_at(folder, parts[:-1], parts[-1], path), path, max_bytes)
            with translated(path, parts):
                descriptor = os.open(parts[-1], _FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            # Between the check and the open the name may have got another meaning: ask the file
            # itself.
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{path!r} is no regular file and cannot be read")
            with translated(path, parts):
                data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise Refused(too_large(path, max_bytes))
        return Content(data, state_of(status))

    def names(self, path: str) -> list[str]:
        """The names in a folder, in code-point order.

        Raises:
            Refused: no such folder.
        """
        parts = self.parts(path)
        with self.open_folder(parts, path) as folder, translated(path, parts):
            return sorted(os.listdir(folder))

    def entries(self, path: str, names: list[str] | None = None) -> list[Entry]:
        """What is in a folder under some of its names, or under all, in code-point order.

        Raises:
            Refused: no such folder.
        """
        parts = self.parts(path)
        names = self.names(path) if names is None else names
        with self.open_folder(parts, path) as folder:
            return _entries_at(folder, parts, names)

    def walk(self, path: str, leaves_out: Callable[[Entry], bool] | None = None) -> Iterator[Entry]:
        """All that is below a folder, or the file itself, depth first in a fixed order.

        Links are listed and not followed. Folders that cannot be opened, lie too deep, or that
        `leaves_out` says so of are listed and not entered.
        """
        top = self.entry(path)
        if top.kind != "folder":
            yield top
            return
        pending = [self._each_entry(path, self.names(path))]
        while pending:
            entry = next(pending[-1], None)
            if entry is None:
                pending.pop()
                continue
            yield entry
            if entry.kind != "folder" or len(pending) >= MAX_DEPTH:
                continue
            if leaves_out is None or not leaves_out(entry):
                with contextlib.suppress(Refused):
                    pending.append(self._each_entry(entry.path, self.names(entry.path)))

    @contextlib.contextmanager
    def open_folder(self, parts: tuple[str, ...], path: str) -> Iterator[int]:
        """The descriptor of a folder below the root, reached without following any link.

        Raises:
            Refused: a component is missing, is no folder, or cannot be opened.
        """
        # Opened anew, not duplicated: duplicates share a position, so that two listings at the same
        # time would each get a part of the names.
        current = os.open(".", _DIRECTORY, dir_fd=self._fd)
        try:
            for index, part in enumerate(parts):
                entry = entry_at(current, parts[:index], part, path)
                if entry.kind != "folder":
                    raise Refused(not_a_folder(entry))
                with translated(path, parts[: index + 1]):
                    following = os.open(part, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    def _each_entry(self, path: str, names: list[str]) -> Iterator[Entry]:
        """Looked at some at a time: what a folder with a million names holds takes much memory."""
        with contextlib.suppress(Refused):  # the folder is gone, or something else by now
            for start in range(0, len(names), _LOOKED_AT_ONCE):
                yield from self.entries(path, names[start : start + _LOOKED_AT_ONCE])

    def _real(self, parents: tuple[str, ...], shown: str) -> str:
        """The name in a folder that is shown like this. A name that is really so comes first."""
        try:
            with self.open_folder(parents, shown) as folder:
                names = sorted(os.listdir(folder))
        except (Refused, OSError):
            return shown
        if shown in names:
            return shown
        return next((name for name in names if shown_name(name) == shown), shown)


def entry_at(folder: int, parents: tuple[str, ...], name: str, path: str) -> Entry:
    """What a name in an open folder is, links not followed.

    Raises:
        Refused: there is no such name. It speaks of `path`, the whole one.
    """
    with translated(path, (*parents, name)):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    where = "/".join((*parents, name))
    return Entry(where, kind_of(status.st_mode), status.st_size, state_of(status))


def state_of(status: os.stat_result) -> tuple[int, ...]:
    """Equal for two looks at a file that nobody wrote to, moved or replaced meanwhile."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _entries_at(folder: int, parents: tuple[str, ...], names: list[str]) -> list[Entry]:
    path = "/".join(parents) or "."
    entries = []
    for name in names:
        # A file may go between the listing and the look at it.
        with contextlib.suppress(NotFound):
            entries.append(entry_at(folder, parents, name, path))
    return entries
