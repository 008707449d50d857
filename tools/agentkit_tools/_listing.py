"""Lists of files: one folder, or all files below it whose name fits a pattern."""

from __future__ import annotations

import fnmatch
import itertools
import time
from collections.abc import Iterator

from agentkit_tools._errors import Refused
from agentkit_tools._names import shown_name
from agentkit_tools._paths import Entry
from agentkit_tools._root import Root
from agentkit_tools._text import count_lines, fitting, is_binary, n_lines

_MAX_SHOWN = 500
_MAX_SCANNED = 100_000
_MAX_SECONDS = 5.0
_MAX_PATTERN_CHARS = 200
_MAX_COUNTED_BYTES = 16 * 1024 * 1024
"""Lines are counted in the first files of a list, up to this sum of sizes; the rest show bytes."""


def list_folder(root: Root, path: str) -> str:
    """The entries of one folder, a line each; a file answers with itself.

    Raises:
        Refused: no such path.
    """
    entry = root.entry(path)
    if entry.kind != "folder":
        return "\n".join(_lines(root, [entry]))
    names = root.names(path)
    entries = root.entries(path, names[:_MAX_SHOWN])
    lines = fitting(_lines(root, entries))
    n_more = len(names[_MAX_SHOWN:]) + len(entries) - len(lines)
    if n_more:
        lines.append(f"[{n_more} more; use a pattern such as '*.md']")
    return "\n".join(lines) or f"[{path!r} is empty]"


def list_matching(root: Root, path: str, pattern: str) -> str:
    """The files below a folder that fit a pattern, a line each.

    A pattern without `/` is compared with names, one with `/` with the path below the folder. `*`
    and `?` stay within a name, `**` stands for any folders. A bound of time or of entries that is
    reached is said in the last line.

    Raises:
        Refused: no such folder, or an endless pattern.
    """
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise Refused(f"the pattern must have at most {_MAX_PATTERN_CHARS} characters")
    scan = _Scan()
    scanned = scan.bounded(root.walk(path))
    matching = list(itertools.islice(_matching(scanned, root.parts(path), pattern), _MAX_SHOWN + 1))
    lines = fitting(_lines(root, matching[:_MAX_SHOWN]))
    if len(matching) > len(lines):
        lines.append(f"[more than {len(lines)} files fit; use a narrower pattern]")
    if not lines:
        lines.append(f"[no file below {path!r} fits {pattern!r}]")
    if scan.stopped:
        lines.append(f"[stopped after {scan.stopped}: list a smaller folder]")
    return "\n".join(lines)


class _Scan:
    """A walk within bounds. `stopped` says which one ended it."""

    def __init__(self) -> None:
        self.stopped: str | None = None

    def bounded(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        deadline = time.monotonic() + _MAX_SECONDS
        for number, entry in enumerate(entries):
            if number >= _MAX_SCANNED:
                self.stopped = f"{_MAX_SCANNED} files and folders"
            elif time.monotonic() > deadline:
                self.stopped = f"{_MAX_SECONDS:g} seconds"
            if self.stopped:
                return
            yield entry


def fits(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern with `/`, `*`, `?`, `[...]` and `**`. Case counts."""
    names, globs = path.split("/"), pattern.split("/")
    # reachable[i]: the globs so far fit the first i names.
    reachable = [True] + [False] * len(names)
    for glob in globs:
        if glob == "**":
            reachable = list(itertools.accumulate(reachable, lambda seen, now: seen or now))
        else:
            reachable = [False] + [
                before and fnmatch.fnmatchcase(name, glob)
                for before, name in zip(reachable, names, strict=False)
            ]
    return reachable[-1]


def _matching(entries: Iterator[Entry], parts: tuple[str, ...], pattern: str) -> Iterator[Entry]:
    prefix = "".join(f"{part}/" for part in parts)
    for entry in entries:
        subject = entry.path.removeprefix(prefix) if "/" in pattern else entry.name
        if entry.kind != "folder" and fits(subject, pattern):
            yield entry


def _lines(root: Root, entries: list[Entry]) -> list[str]:
    """A line for each entry. Lines of text are counted until that has read enough."""
    lines = []
    n_counted_bytes = 0
    for entry in entries:
        n_counted_bytes += entry.size_bytes if entry.kind == "file" else 0
        is_counted = n_counted_bytes <= _MAX_COUNTED_BYTES
        lines.append(f"{shown_name(entry.path)}{_details(root, entry, is_counted=is_counted)}")
    return lines


def _details(root: Root, entry: Entry, *, is_counted: bool) -> str:
    match entry.kind:
        case "folder":
            return "/"
        case "link" | "special":
            return f"  ({entry.kind}, cannot be read)"
        case "file":
            size = f"  {entry.size_bytes} bytes"
            return f"{size}{_line_count(root, entry)}" if is_counted else size


def _line_count(root: Root, entry: Entry) -> str:
    try:
        data = root.read(entry.path, _MAX_COUNTED_BYTES)
    except Refused:
        return ", cannot be read"
    return ", binary" if is_binary(data) else f", {n_lines(count_lines(data))}"
