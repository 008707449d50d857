"""The files that a program left in its folder: their names, sizes and, where wanted, texts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_MAX_SCANNED = 2000
_MAX_DEPTH = 16
_MAX_NAME_CHARS = 60_000
"""Of all names together."""


def made_files(
    folder: Path, wanted: list[str], max_bytes: int
) -> tuple[list[tuple[str, int]], dict[str, str]]:
    """All files below a folder by name, with sizes; and the texts of some of them.

    Links and special files are left out, and what lies deeper than any sensible program puts it.
    """
    files = sorted(_files(folder))
    sizes = dict(files)
    contents: dict[str, str] = {}
    for name in wanted:
        path = os.path.normpath(name)
        contents[name] = (
            _content(folder / path, max_bytes) if path in sizes else "[there is no such file]"
        )
        max_bytes = max(0, max_bytes - len(contents[name]))
    return files, contents


def _files(folder: Path) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    waiting = [""]
    n_scanned = n_chars = 0
    while waiting:
        inner = waiting.pop()
        try:
            entries = list(os.scandir(folder / inner))
        except OSError:
            continue
        for entry in entries:
            name = os.path.join(inner, entry.name)
            n_scanned += 1
            n_chars += len(name)
            if n_scanned > _MAX_SCANNED or n_chars > _MAX_NAME_CHARS:
                return found
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and name.count("/") < _MAX_DEPTH:
                waiting.append(name)
            elif stat.S_ISREG(status.st_mode):
                found.append((name, status.st_size))
    return found


def _content(path: Path, max_bytes: int) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return f"[cannot be read: {error.strerror}]"
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return "[cannot be read: not a file]"
        data = file.read(max_bytes + 1)
    if b"\0" in data:
        return "[binary, not shown]"
    text = data[:max_bytes].decode("utf-8", "replace")
    return f"{text}\n[cut here]" if len(data) > max_bytes else text
