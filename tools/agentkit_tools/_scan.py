"""Which files of a folder are indexed, within fixed bounds, and what is left out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit_tools._errors import Refused
from agentkit_tools._paths import Entry
from agentkit_tools._root import Root
from agentkit_tools._text import is_binary

MAX_INDEXED_FILE_BYTES = 2 * 1024 * 1024
MAX_INDEXED_FILES = 20_000
_MAX_SEEN = 200_000
_FRESH_NS = 2_000_000_000
"""A file that was written to so lately can be written to again without getting another state."""

IGNORED_NAMES = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True)
class File:
    """A file that may be indexed. `state` is empty if it says nothing yet."""

    path: str
    state: str
    size_bytes: int


class Scan:
    """One pass over a folder. Hidden, ignored, binary and large files are counted and left out.

    Raises:
        Refused: when the folder has more files, more text, or takes more time than is allowed.
    """

    def __init__(
        self,
        root: Root,
        *,
        ignored: frozenset[str] = IGNORED_NAMES,
        max_text_bytes: int,
        max_seconds: float,
    ) -> None:
        self._root = root
        self._ignored = ignored
        self._max_text_bytes = max_text_bytes
        self._max_seconds = max_seconds
        self._left_out: Counter[str] = Counter()
        self._n_files = 0
        self._n_bytes = 0

    def files(self) -> Iterator[File]:
        """The files that may be indexed, in a fixed order."""
        self._left_out.clear()
        self._n_files = self._n_bytes = 0
        deadline = time.monotonic() + self._max_seconds
        now_ns = time.time_ns()
        for number, entry in enumerate(self._root.walk(".", self._is_ignored), start=1):
            if number > _MAX_SEEN or time.monotonic() > deadline:
                raise Refused(
                    f"the folder has too many files, or takes more than {self._max_seconds:g} "
                    "seconds; serve a smaller one"
                )
            why = self._why_not(entry)
            if why:
                self._left_out[why] += 1
            elif entry.kind == "file":
                is_fresh = max(entry.state[-2:]) > now_ns - _FRESH_NS
                state = "" if is_fresh else " ".join(map(str, entry.state))
                yield File(entry.path, state, entry.size_bytes)

    def read(self, file: File) -> bytes | None:
        """The text of a file as bytes; None if it is binary, gone or not readable."""
        try:
            data = self._root.read(file.path, MAX_INDEXED_FILE_BYTES)
        except Refused:
            self._left_out["not readable"] += 1
            return None
        if is_binary(data):
            self._left_out["binary"] += 1
            return None
        self.count(len(data))
        return data

    def count(self, size_bytes: int) -> None:
        """Count a file as indexed."""
        self._n_files += 1
        self._n_bytes += size_bytes
        if self._n_files > MAX_INDEXED_FILES or self._n_bytes > self._max_text_bytes:
            raise Refused(
                f"the folder holds more than {MAX_INDEXED_FILES} texts or "
                f"{self._max_text_bytes} bytes of text; serve a smaller one, or raise --max-mb"
            )

    def skipped(self) -> str:
        """What was left out, in words; empty if nothing was."""
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self._left_out.items()))

    def _is_ignored(self, entry: Entry) -> bool:
        return entry.name.startswith(".") or entry.name in self._ignored

    def _why_not(self, entry: Entry) -> str | None:
        if self._is_ignored(entry):
            return "hidden or ignored"
        if entry.kind in ("link", "special"):
            return entry.kind
        is_large = entry.kind == "file" and entry.size_bytes > MAX_INDEXED_FILE_BYTES
        return "too large" if is_large else None
