"""Find text in the files below a folder, within fixed bounds of time, bytes and files.

Plain text is found here. A regular expression runs in a child process with a time limit, because
a bad one would never end (see `_regex_worker`).
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentkit_tools import _regex_worker
from agentkit_tools._errors import Refused
from agentkit_tools._names import shown_name
from agentkit_tools._paths import Entry
from agentkit_tools._root import Root
from agentkit_tools._text import (
    MAX_LINE_CHARS,
    fitting,
    is_binary,
    lines_of,
    n_lines,
    shown_line,
)

_MAX_QUERY_CHARS = 1000
_MAX_SCANNED_FILES = 20_000
_MAX_SCANNED_BYTES = 64 * 1024 * 1024
_MAX_SECONDS = 5.0
_MAX_REGEX_BYTES = 512 * 1024 * 1024
"""Of address space, for the child that runs a regular expression over one batch."""

_MAX_REGEX_CHILDREN = 2
_BATCH_CHARS = 8 * 1024 * 1024
"""Texts go to the regular expression in batches of about this size."""

_START_CHILD = (
    # Appended, not inserted: this folder has modules named like those of the standard library.
    f"import sys; sys.path.append({str(Path(__file__).resolve().parents[1])!r}); "
    "from agentkit_tools._regex_worker import main; main()"
)
_CONTEXT_CHARS = 100
"""In a long line, what is shown starts this far before the match."""

_places = threading.BoundedSemaphore(_MAX_REGEX_CHILDREN)
"""More children than this would together hold more memory than a machine may have."""

_Match = tuple[int, int, int]
"""Index of the text, index of the line, and where in the line the match starts (for showing)."""

_Find = Callable[[list[list[str]], int], list[_Match]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to look for."""

    text: str
    is_regex: bool
    ignore_case: bool
    max_results: int


@dataclass(slots=True)
class _Scan:
    """What happened on the way, for the last line of the answer."""

    n_files: int = 0
    n_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class _Text:
    path: str
    lines: list[str]


def search(root: Root, path: str, query: Query, max_file_bytes: int) -> str:
    """Search one file, or all files below a folder; `file:line: text` for each line that matches.

    The order is fixed (files by path, then lines). The last line says how much was found and what
    was not looked at.

    Raises:
        Refused: nothing to look for, a broken or too slow regular expression, or no such path.
    """
    find = _finder(query)
    scan = _Scan()
    found: list[str] = []
    for batch in _batches(_texts(root, path, scan, max_file_bytes)):
        for text_index, line_index, start in find(
            [text.lines for text in batch], query.max_results + 1 - len(found)
        ):
            text = batch[text_index]
            found.append(_shown(text.path, line_index, text.lines[line_index], start))
        if len(found) > query.max_results:
            break
    shown = fitting(found[: query.max_results])
    return "\n".join([*shown, _summary(query, len(found), len(shown), scan)])


def _finder(query: Query) -> _Find:
    if not query.text or len(query.text) > _MAX_QUERY_CHARS:
        raise Refused(f"the query must have 1 to {_MAX_QUERY_CHARS} characters")
    if not query.is_regex:
        return functools.partial(_find_plain, query)
    try:
        re.compile(query.text)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(
            f"{query.text!r} is no valid regular expression: {error}; "
            "for plain text leave regex at false"
        ) from None
    deadline = time.monotonic() + _MAX_SECONDS
    return functools.partial(_find_in_child, query, deadline)


def _find_plain(query: Query, texts: list[list[str]], limit: int) -> list[_Match]:
    """`str.find` takes linear time, whatever the query; `re` with IGNORECASE does not."""
    wanted = query.text.casefold() if query.ignore_case else query.text
    matches: list[_Match] = []
    for text_index, lines in enumerate(texts):
        for line_index, line in enumerate(lines):
            start = (line.casefold() if query.ignore_case else line).find(wanted)
            if start >= 0:
                matches.append((text_index, line_index, start))
                if len(matches) >= limit:
                    return matches
    return matches


def _find_in_child(
    query: Query, deadline: float, texts: list[list[str]], limit: int
) -> list[_Match]:
    request = {
        "pattern": query.text,
        "ignore_case": query.ignore_case,
        "texts": texts,
        "limit": limit,
        "limits": {
            "timeout_s": _MAX_SECONDS,
            "max_memory_bytes": _MAX_REGEX_BYTES,
            "max_file_bytes": 0,
        },
    }
    if not _places.acquire(timeout=max(0.1, deadline - time.monotonic())):
        raise Refused("too many searches run at the same time; search again, or for plain text")
    try:
        reply = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _START_CHILD],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=max(0.1, deadline - time.monotonic()),
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        raise Refused(_why_stopped(query, error)) from None
    finally:
        _places.release()
    return [(text, line, start) for text, line, start in json.loads(reply.stdout)["matches"]]


def _why_stopped(query: Query, error: subprocess.SubprocessError) -> str:
    code = error.returncode if isinstance(error, subprocess.CalledProcessError) else None
    if code == _regex_worker.OUT_OF_MEMORY:
        return (
            f"the regular expression {query.text!r} takes too much memory; avoid repeated "
            "alternatives such as (a|b)*, search fewer files, or for plain text"
        )
    return (
        f"the regular expression {query.text!r} takes too long; "
        "avoid nested repetition such as (a+)+, or search for plain text"
    )


def _texts(root: Root, path: str, scan: _Scan, max_file_bytes: int) -> Iterator[_Text]:
    """The texts of all readable files, until a bound is reached."""
    deadline = time.monotonic() + _MAX_SECONDS
    only = root.entry(path)
    for entry in root.walk(path):
        scan.stopped = _bound_reached(scan, deadline)
        if scan.stopped:
            return
        if entry.kind == "folder":
            continue
        try:
            data = root.read(entry.path, max_file_bytes)
        except Refused:
            if entry == only:
                raise
            scan.skipped[_why_skipped(entry, max_file_bytes)] += 1
            continue
        scan.n_bytes += len(data)
        if is_binary(data):
            scan.skipped["binary"] += 1
            continue
        scan.n_files += 1
        yield _Text(entry.path, lines_of(data.decode("utf-8-sig", "replace")))


def _bound_reached(scan: _Scan, deadline: float) -> str | None:
    if scan.n_files + scan.skipped.total() >= _MAX_SCANNED_FILES:
        return f"{_MAX_SCANNED_FILES} files"
    if scan.n_bytes >= _MAX_SCANNED_BYTES:
        return f"{_MAX_SCANNED_BYTES} bytes"
    return f"{_MAX_SECONDS:g} seconds" if time.monotonic() > deadline else None


def _why_skipped(entry: Entry, max_file_bytes: int) -> str:
    if entry.kind != "file":
        return entry.kind
    return "too large" if entry.size_bytes > max_file_bytes else "not readable"


def _batches(texts: Iterator[_Text]) -> Iterator[list[_Text]]:
    batch: list[_Text] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += sum(map(len, text.lines))
        if size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _shown(path: str, line_index: int, line: str, start: int) -> str:
    """Show the whole line; of a very long one the part around the match."""
    from_char = 0 if len(line) <= MAX_LINE_CHARS else max(0, start - _CONTEXT_CHARS)
    return f"{shown_name(path)}:{line_index + 1}: {shown_line(line, from_char)}"


def _summary(query: Query, n_found: int, n_shown: int, scan: _Scan) -> str:
    if n_found > query.max_results:
        found = f"more than {n_lines(query.max_results)} found; narrow the query or the path"
    else:
        found = f"{n_lines(n_found)} found, {scan.n_files} files searched"
    parts = [found]
    if n_shown < min(n_found, query.max_results):
        parts.append(f"{n_lines(n_shown)} shown, more do not fit; narrow the query or the path")
    if scan.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(scan.skipped.items()))
        parts.append(f"not searched: {kinds}")
    if scan.stopped:
        parts.append(f"stopped after {scan.stopped}: search a smaller folder")
    return f"[{'; '.join(parts)}]"
