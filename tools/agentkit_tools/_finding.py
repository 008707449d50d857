"""Find text in the files below a folder, within fixed bounds of time, bytes and files.

Plain text is found here. A regular expression runs in a child process with a time limit, because
a bad one would never end (see `_regex_worker`).
"""

from __future__ import annotations

import functools
import itertools
import json
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
from agentkit_tools._text import fitting, is_binary, n_lines, shown_match

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
_places = threading.BoundedSemaphore(_MAX_REGEX_CHILDREN)
"""More children than this would together hold more memory than a machine may have."""

_Match = tuple[int, int, str]
"""Index of the text, index of the line, and what is shown of the line."""

_Find = Callable[[list[str], int], list[_Match]]


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


_Text = tuple[str, str]
"""The path of a file, and what it holds."""


def search(root: Root, path: str, query: Query, max_file_bytes: int) -> str:
    """Search one file, or all files below a folder; `file:line: text` for each line that matches.

    The order is fixed (files by path, then lines). The last line says how much was found and what
    was not looked at.

    Raises:
        Refused: nothing to look for, a broken or too slow regular expression, or no such path.
    """
    find, max_chars = _finder(query)
    scan = _Scan()
    found: list[str] = []
    for batch in _batches(_texts(root, path, scan, max_file_bytes), max_chars):
        for text_index, line_index, shown in find(
            [text for _, text in batch], query.max_results + 1 - len(found)
        ):
            found.append(f"{shown_name(batch[text_index][0])}:{line_index + 1}: {shown}")
        if len(found) > query.max_results:
            break
    shown_lines = fitting(found[: query.max_results])
    return "\n".join([*shown_lines, _summary(query, len(found), len(shown_lines), scan)])


def _finder(query: Query) -> tuple[_Find, int]:
    """How to find, and in how many characters at once."""
    if not query.text or len(query.text) > _MAX_QUERY_CHARS:
        raise Refused(f"the query must have 1 to {_MAX_QUERY_CHARS} characters")
    if not query.is_regex:
        return functools.partial(_find_plain, query), 1
    deadline = time.monotonic() + _MAX_SECONDS
    return functools.partial(_find_in_child, query, deadline), _BATCH_CHARS


def _find_plain(query: Query, texts: list[str], limit: int) -> list[_Match]:
    """`str.find` takes linear time, whatever the query; `re` with IGNORECASE does not."""
    wanted = query.text.casefold() if query.ignore_case else query.text
    matches: list[_Match] = []
    for text_index, text in enumerate(texts):
        plain = text.replace("\r\n", "\n").removesuffix("\r")
        folded = plain.casefold() if query.ignore_case else plain
        lines = _lines_with(wanted, plain, folded)
        matches += [
            (text_index, line, shown)
            for line, shown in itertools.islice(lines, limit - len(matches))
        ]
    return matches


def _lines_with(wanted: str, text: str, folded: str) -> Iterator[tuple[int, str]]:
    """The lines of a text in whose folded form something is; without taking it apart.

    Folding can make a line longer, and makes no line and takes none away.
    """
    number = start = folded_start = 0
    while "\n" not in wanted and (at := folded.find(wanted, folded_start)) >= 0:
        n_skipped = folded.count("\n", folded_start, at)
        if n_skipped:
            folded_start = folded.rfind("\n", folded_start, at) + 1
            is_same = len(folded) == len(text)
            start = folded_start if is_same else _skipped(text, start, n_skipped)
            number += n_skipped
        end, folded_end = (each.find("\n", where) for each, where in ((text, start), (folded, at)))
        line = text[start:] if end < 0 else text[start:end]
        yield number, shown_match(line, at - folded_start)
        if end < 0:
            return
        number, start, folded_start = number + 1, end + 1, folded_end + 1


def _skipped(text: str, start: int, n_lines: int) -> int:
    """Where the line starts that comes so many lines later."""
    for _ in range(n_lines):
        start = text.find("\n", start) + 1
    return start


def _find_in_child(query: Query, deadline: float, texts: list[str], limit: int) -> list[_Match]:
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
        done = subprocess.run(
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
    reply = json.loads(done.stdout)
    if "invalid" in reply:
        raise Refused(
            f"{query.text!r} is no valid regular expression: {reply['invalid']}; "
            "for plain text leave regex at false"
        )
    return [(text, line, shown) for text, line, shown in reply["matches"]]


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
        yield entry.path, data.decode("utf-8-sig", "replace")


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


def _batches(texts: Iterator[_Text], max_chars: int) -> Iterator[list[_Text]]:
    """All texts in lists of about so many characters; without texts one empty list."""
    batch: list[_Text] = []
    size = n_batches = 0
    for text in texts:
        batch.append(text)
        size += len(text[1])
        if size >= max_chars:
            yield batch
            n_batches += 1
            batch, size = [], 0
    if batch or not n_batches:
        yield batch


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
