"""One folder, and nothing outside it.

Paths are walked from an open descriptor of the root, one component at a time, and never through a
link (`openat` with `O_NOFOLLOW`). So a path cannot be checked as one thing and opened as another,
whoever swaps files and links meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentkit_tools._names import shown_name

_MAX_PATH_CHARS = 4096
_MAX_DEPTH = 64
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

Kind = Literal["file", "folder", "link", "special"]


class Refused(Exception):
    """The request cannot be served. The message tells a model what to do instead."""


class NotFound(Refused):
    """Nothing has this name. `folder` is where the search ended, `name` what is missing there."""

    def __init__(self, path: str, folder: str, name: str) -> None:
        super().__init__(f"there is no {name!r} in {folder!r} (path {path!r})")
        self.folder = folder
        self.name = name


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder. `path` is relative to the root, with `/` between components."""

    path: str
    kind: Kind
    size_bytes: int

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rsplit("/", 1)[-1]


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
        with self._open_folder(parts[:-1], path) as folder:
            return self._entry_at(folder, parts[:-1], parts[-1], path)

    def read(self, path: str, max_bytes: int) -> bytes:
        """The content of a regular file.

        Raises:
            Refused: no such file, no regular file, more than `max_bytes`, or not readable.
        """
        parts = self.parts(path)
        if not parts:
            raise Refused("'.' is a folder; list it with list_files")
        with self._open_folder(parts[:-1], path) as folder:
            entry = self._entry_at(folder, parts[:-1], parts[-1], path)
            _check_readable(entry, path, max_bytes)
            with _translated(path, parts):
                descriptor = os.open(parts[-1], _FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            # Between the check and the open the name may have got another meaning: ask the file
            # itself.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused(f"{path!r} is no regular file and cannot be read")
            with _translated(path, parts):
                data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise Refused(_too_large(path, max_bytes))
        return data

    def entries(self, path: str) -> list[Entry]:
        """What is in a folder, in code-point order of the names.

        Raises:
            Refused: no such folder.
        """
        parts = self.parts(path)
        with self._open_folder(parts, path) as folder:
            return self._entries_at(folder, parts)

    def walk(self, path: str) -> Iterator[Entry]:
        """All that is below a folder, or the file itself, depth first in a fixed order.

        Links are listed and not followed. Folders that cannot be opened, or lie too deep, are
        listed and not entered.
        """
        top = self.entry(path)
        if top.kind != "folder":
            yield top
            return
        pending = [self.entries(path)[::-1]]
        while pending:
            if not pending[-1]:
                pending.pop()
                continue
            entry = pending[-1].pop()
            yield entry
            if entry.kind == "folder" and len(pending) < _MAX_DEPTH:
                with contextlib.suppress(Refused):
                    pending.append(self.entries(entry.path)[::-1])

    def _real(self, parents: tuple[str, ...], shown: str) -> str:
        """The name in a folder that is shown like this. A name that is really so comes first."""
        try:
            with self._open_folder(parents, shown) as folder:
                names = sorted(os.listdir(folder))
        except (Refused, OSError):
            return shown
        if shown in names:
            return shown
        return next((name for name in names if shown_name(name) == shown), shown)

    @contextlib.contextmanager
    def _open_folder(self, parts: tuple[str, ...], path: str) -> Iterator[int]:
        """The descriptor of a folder below the root, reached without following any link."""
        # Opened anew, not duplicated: duplicates share a position, so that two listings at the same
        # time would each get a part of the names.
        current = os.open(".", _DIRECTORY, dir_fd=self._fd)
        try:
            for index, part in enumerate(parts):
                entry = self._entry_at(current, parts[:index], part, path)
                if entry.kind != "folder":
                    raise Refused(_not_a_folder(entry))
                with _translated(path, parts[: index + 1]):
                    following = os.open(part, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    def _entry_at(self, folder: int, parents: tuple[str, ...], name: str, path: str) -> Entry:
        with _translated(path, (*parents, name)):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return Entry("/".join((*parents, name)), _kind(status.st_mode), status.st_size)

    def _entries_at(self, folder: int, parents: tuple[str, ...]) -> list[Entry]:
        path = "/".join(parents) or "."
        with _translated(path, parents):
            names = sorted(os.listdir(folder))
        entries = []
        for name in names:
            # A file may go between the listing and the look at it.
            with contextlib.suppress(NotFound):
                entries.append(self._entry_at(folder, parents, name, path))
        return entries


def split(path: str) -> tuple[str, ...]:
    """The components of a relative path. Empty for the root.

    Raises:
        Refused: the path is absolute, has `..`, a NUL or is too long.
    """
    if "\0" in path or len(path) > _MAX_PATH_CHARS:
        raise Refused(
            "the path contains a NUL character or is too long; use a path from list_files"
        )
    # `~` and `C:` are names like others here: nothing expands them.
    if path.startswith("/"):
        raise Refused(
            f"{path!r} is not relative; paths start at the root folder, like 'notes/a.txt'"
        )
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Refused(f"{path!r} contains '..'; paths start at the root folder and only go down")
    return parts


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"


def _check_readable(entry: Entry, path: str, max_bytes: int) -> None:
    match entry.kind:
        case "folder":
            raise Refused(f"{path!r} is a folder; list it with list_files")
        case "link":
            raise Refused(
                f"{path!r} is a link, and links are not followed; use the file's own path"
            )
        case "special":
            raise Refused(f"{path!r} is a pipe, socket or device and cannot be read")
        case "file":
            if entry.size_bytes > max_bytes:
                raise Refused(_too_large(path, max_bytes))


def _not_a_folder(entry: Entry) -> str:
    if entry.kind == "link":
        return f"{entry.path!r} is a link, and links are not followed; use the folder's own path"
    return f"{entry.path!r} is not a folder"


def _too_large(path: str, max_bytes: int) -> str:
    return f"{path!r} is larger than {max_bytes} bytes, which is the limit for one file"


@contextlib.contextmanager
def _translated(path: str, parts: tuple[str, ...]) -> Iterator[None]:
    """Turn system errors about the component that `parts` ends with into refusals."""
    try:
        yield
    except FileNotFoundError:
        name = parts[-1] if parts else "."
        raise NotFound(path, "/".join(parts[:-1]) or ".", name) from None
    except UnicodeEncodeError:
        raise Refused(f"{path!r} contains characters that no file name can have") from None
    except OSError as error:
        raise Refused(f"{path!r} cannot be opened: {error.strerror}") from None
