"""The tools of the files server that change something. They are not there with `--read-only`."""

from __future__ import annotations

import threading
from typing import Annotated

from pydantic import Field

from agentkit_tools import _changes
from agentkit_tools._errors import Refused
from agentkit_tools._names import shown_name
from agentkit_tools._paths import MAX_PATH_CHARS, NotFound
from agentkit_tools._replace import Edited, replaced
from agentkit_tools._root import Content, Root
from agentkit_tools._text import (
    MAX_FILE_BYTES,
    count_lines,
    decode_exactly,
    encode_exactly,
    fitting,
    n_lines,
    version_of,
)

_MAX_NEW_CHARS = 2 * 1024 * 1024

FilePath = Annotated[
    str,
    Field(max_length=MAX_PATH_CHARS, description="path below the root folder, as list_files shows"),
]
_Text = Annotated[str, Field(max_length=_MAX_NEW_CHARS)]
_Version = Annotated[
    str,
    Field(
        max_length=64,
        description="the version that read_lines showed; if the file has another one by now, "
        "nothing is written",
    ),
]


class FileChanges:
    """The tools. Each returns text for a model, or raises `Refused` with what to do instead.

    Changes through one object happen one after the other.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._lock = threading.Lock()

    def write_file(
        self, path: FilePath, content: _Text, overwrite: bool = False, version: _Version = ""
    ) -> str:
        """Write a whole text file. A file that is there is only replaced with overwrite."""
        data = _encoded(content)
        with self._lock:
            if not overwrite:
                _changes.create(self._root, path, data)
            else:
                self._overwrite(path, data, version)
        return f"wrote {_written(path, data)}"

    def edit_file(
        self,
        path: FilePath,
        old: Annotated[
            str, Field(max_length=_MAX_NEW_CHARS, description="text that is in the file, exactly")
        ],
        new: Annotated[
            str, Field(max_length=_MAX_NEW_CHARS, description="text that takes its place")
        ],
        replace_all: Annotated[
            bool, Field(description="replace each place; otherwise old must be there exactly once")
        ] = False,
        version: _Version = "",
    ) -> str:
        """Replace a piece of a text file, and show the lines that changed."""
        _encoded(old), _encoded(new)
        with self._lock:
            content = self._current(path, version)
            edited = replaced(
                decode_exactly(content.data, path),
                old,
                new,
                replace_all=replace_all,
                max_chars=MAX_FILE_BYTES,
                path=path,
            )
            data = encode_exactly(edited.text)
            _check_size(data)
            _changes.replace(self._root, path, data, content)
        return _shown(edited, path, data)

    def make_folder(self, path: FilePath) -> str:
        """Make a folder, and the folders above it where they are missing."""
        with self._lock:
            is_new = _changes.make_folder(self._root, path)
        return f"made the folder {_name(path)}" if is_new else f"{_name(path)} was there already"

    def move_file(
        self,
        path: FilePath,
        to: Annotated[str, Field(max_length=MAX_PATH_CHARS, description="the new path, whole")],
        overwrite: Annotated[
            bool, Field(description="replace a file that has the new path")
        ] = False,
    ) -> str:
        """Move or rename a file or folder."""
        with self._lock:
            _changes.move(self._root, path, to, overwrite=overwrite)
        return f"moved {_name(path)} to {_name(to)}"

    def delete_file(
        self,
        path: FilePath,
        recursive: Annotated[bool, Field(description="delete a folder with all in it")] = False,
    ) -> str:
        """Delete a file, a link or an empty folder, for good."""
        with self._lock:
            kind = _changes.delete(self._root, path, recursive=recursive)
        return f"deleted the {kind} {_name(path)}"

    def _overwrite(self, path: str, data: bytes, version: str) -> None:
        if version:
            _changes.replace(self._root, path, data, self._current(path, version))
            return
        try:
            _changes.replace(self._root, path, data)
        except NotFound:
            _changes.create(self._root, path, data)

    def _current(self, path: str, version: str) -> Content:
        content = self._root.content(path, MAX_FILE_BYTES)
        if version and version_of(content.data) != version:
            raise Refused(
                f"{path!r} has changed: it has version {version_of(content.data)} and not "
                f"{version[:64]!r}; read it again"
            )
        return content


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            f"character {error.start} of the text is half of a surrogate pair, which no file can "
            "hold; leave it out"
        ) from None
    _check_size(data)
    return data


def _check_size(data: bytes) -> None:
    if len(data) > MAX_FILE_BYTES:
        raise Refused(f"the file would have more than {MAX_FILE_BYTES} bytes; write less")


def _shown(edited: Edited, path: str, data: bytes) -> str:
    places = "1 place" if edited.n_replaced == 1 else f"{edited.n_replaced} places"
    # Bytes that are no UTF-8 are kept in the file; an answer cannot hold them.
    diff = [line.encode("utf-8", "replace").decode() for line in edited.diff]
    lines = fitting([f"changed {places}: {_written(path, data)}", *diff])
    more = (
        [f"[{len(diff) + 1 - len(lines)} more lines of changes]"] if len(lines) <= len(diff) else []
    )
    return "\n".join([*lines, *more])


def _written(path: str, data: bytes) -> str:
    size = f"{n_lines(count_lines(data))}, {len(data)} bytes"
    return f"{_name(path)}: {size}, version {version_of(data)}"


def _name(path: str) -> str:
    return shown_name("/".join(part for part in path.split("/") if part not in ("", ".")) or ".")
