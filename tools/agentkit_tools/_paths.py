"""Paths below a root, as strings, and what they name."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentkit_tools._errors import Refused

MAX_PATH_CHARS = 4096

Kind = Literal["file", "folder", "link", "special"]


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
    state: tuple[int, ...] = ()
    """Equal for two looks at a file that nobody wrote to, moved or replaced meanwhile."""

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rsplit("/", 1)[-1]


def split(path: str) -> tuple[str, ...]:
    """The components of a relative path. Empty for the root.

    Raises:
        Refused: the path is absolute, has `..`, a NUL or is too long.
    """
    if "\0" in path or len(path) > MAX_PATH_CHARS:
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


def kind_of(mode: int) -> Kind:
    """The kind of an entry, from the mode of a status that follows no link."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"


def check_readable(entry: Entry, path: str, max_bytes: int) -> None:
    """Raise `Refused` unless the entry is a regular file of at most so many bytes."""
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
                raise Refused(too_large(path, max_bytes))


def not_a_folder(entry: Entry) -> str:
    """Why a path cannot go through an entry."""
    if entry.kind == "link":
        return f"{entry.path!r} is a link, and links are not followed; use the folder's own path"
    return f"{entry.path!r} is not a folder"


def too_large(path: str, max_bytes: int) -> str:
    """Why a file is not read."""
    return f"{path!r} is larger than {max_bytes} bytes, which is the limit for one file"


@contextlib.contextmanager
def translated(path: str, parts: tuple[str, ...]) -> Iterator[None]:
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
