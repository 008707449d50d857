"""An MCP server that ranks the texts of one folder: `python -m agentkit_tools.search ROOT`.

It answers from a snapshot: the texts as they were when it was made. The same call on the same
snapshot has the same answer, to the byte, whatever happens in the folder; each answer names its
snapshot, and `refresh` makes the next one. Without `--cache` the first call of a start makes one;
in a cache file the last one is kept, and answered from until somebody refreshes.

Threat model. Whoever calls the tools is hostile; whoever started the server is not; files below
ROOT may change at any time, with malice.

- Nothing outside ROOT is read, and nothing in it is written. Links are not followed; pipes, sockets
  and devices are not opened (see `agentkit_tools.files`, whose confined root this uses).
- Left out are hidden files and folders (so `.git`, `.env`), those named `__pycache__` or
  `node_modules` or with `--ignore`, binary files, and files of more than 2 MiB. They are counted.
- Nothing in a query is syntax for the database: words are quoted. A query takes at most 5 seconds,
  making a snapshot 60. Calls wait for the first snapshot to be made; while a later one is made,
  they wait for 5 seconds and are then answered from the one before, which they are told.
- A snapshot holds at most 20,000 texts and `--max-mb` MiB of text, and what does not fit is refused
  as a whole: there is no half of a snapshot. Every answer is bounded in size.
- Contents and file names are data from strangers, and a client must not take them for instructions.
- A cache file, and those that SQLite puts beside it, hold the texts in the clear, readable by
  whoever may read that file. It has to lie outside ROOT. Whoever can write to it decides what is
  found.

The server speaks on stdout and logs to stderr; it ends when its stdin does. `--http` serves every
user of this machine.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from agentkit_tools._errors import Refused
from agentkit_tools._paths import MAX_PATH_CHARS
from agentkit_tools._query import MAX_QUERY_CHARS, match_expression
from agentkit_tools._reading import End, Start, show_lines, with_numbers
from agentkit_tools._root import Root
from agentkit_tools._scan import IGNORED_NAMES, Scan
from agentkit_tools._serve import (
    READS,
    REPEATABLE,
    THREADS_END_WITHIN_S,
    log,
    make_parser,
    make_server,
    serve,
    strict_tool,
)
from agentkit_tools._snapshots import Found, Index, Snapshot
from agentkit_tools._text import fitting

MAX_SEARCH_SECONDS = 5.0
MAX_REFRESH_SECONDS = 60.0

_MAX_RESULTS = 50
_MAX_SKIPPED = 10_000
_MAX_MB = 4096

_Within = Annotated[
    str,
    Field(
        max_length=200,
        description="only there: a folder, a file, or a pattern such as 'docs/**/*.md'",
    ),
]


def build_server(index: Index, scan: Scan) -> MCPServer:
    """The server over an index and the folder it is of. The caller closes the index afterwards."""
    tools = SearchTools(index, scan)
    return make_server(
        "agentkit-search",
        "Finds passages in the texts of one folder, best first, from a snapshot of them.",
        [
            *(
                strict_tool(method, annotations=READS)
                for method in (tools.search, tools.list_texts, tools.read_text)
            ),
            strict_tool(tools.refresh, annotations=REPEATABLE),
        ],
    )


class SearchTools:
    """The tools. Each returns text for a model, or raises `Refused` with what to do instead."""

    def __init__(self, index: Index, scan: Scan, wait_s: float = MAX_SEARCH_SECONDS) -> None:
        self._index = index
        self._scan = scan
        self._wait_s = wait_s
        self._refreshing = threading.Lock()
        self._is_begun = False

    def search(
        self,
        query: Annotated[
            str,
            Field(
                max_length=MAX_QUERY_CHARS,
                description='words (any may occur), "a phrase" (must occur), the start of a word '
                "with a star (pars*)",
            ),
        ],
        within: _Within = "",
        max_results: Annotated[int, Field(ge=1, le=_MAX_RESULTS)] = 8,
        skip: Annotated[
            int, Field(ge=0, le=_MAX_SKIPPED, description="leave out so many of the best")
        ] = 0,
    ) -> str:
        """Find passages by words, best first, with file and line numbers."""
        expression = match_expression(query)
        state = self._begin()
        snapshot, found = self._index.search(expression, within, max_results + 1, skip)
        blocks = fitting([_block(each) for each in found[:max_results]]) if found else []
        n_more = len(found) - len(blocks)
        notes = [f"{skip + 1}-{skip + len(blocks)}" if blocks else "nothing found"]
        if n_more:
            notes.append(f"there is more: skip={skip + len(blocks)}")
        return "\n\n".join([*blocks, _noted(snapshot, [*notes, *state])])

    def list_texts(self, within: _Within = "") -> str:
        """List the files that are searched."""
        state = self._begin()
        snapshot, paths = self._index.paths(within)
        shown = fitting(paths) if paths else []
        notes = [f"{len(shown)} of {len(paths)} files; give a folder or pattern"]
        if len(shown) == len(paths):
            notes = [f"{len(paths)} files"]
        if snapshot.skipped and not within:
            notes.append(f"left out: {snapshot.skipped}")
        return "\n".join([*shown, _noted(snapshot, [*notes, *state])])

    def read_text(
        self,
        path: Annotated[
            str, Field(max_length=MAX_PATH_CHARS, description="a file, as search shows it")
        ],
        start: Start = 1,
        end: End = None,
    ) -> str:
        """Read lines of a file as the snapshot has them."""
        state = self._begin()
        snapshot, lines = self._index.lines(path)
        if lines is None:
            raise Refused(f"there is no {path!r} in the snapshot; take a path from list_texts")
        note = ", ".join(["", *state, f"snapshot {snapshot.digest}"])
        return show_lines(path, lines, start, end, note)

    def refresh(self) -> str:
        """Make a new snapshot of the folder. Later answers come from it."""
        # Those who wait each hold a thread, which answers from the snapshot before need.
        if not self._refreshing.acquire(timeout=self._wait_s):
            raise Refused("a newer snapshot is being made already; call refresh again after it")
        try:
            before = self._index.snapshot()
            snapshot, difference = self._index.refresh(self._scan, MAX_REFRESH_SECONDS)
            self._is_begun = True
        finally:
            self._refreshing.release()
        if before and before.digest == snapshot.digest:
            return f"nothing has changed; snapshot {snapshot.digest}, {snapshot.n_files} files"
        return (
            f"snapshot {snapshot.digest}, {snapshot.n_files} files: {difference.n_added} added, "
            f"{difference.n_changed} changed, {difference.n_removed} removed"
        )

    def _begin(self) -> list[str]:
        """Make the first snapshot, if there is none, or wait for another call that makes it.

        One that is made later is waited for, too, but not for long. Returns what is to be said of
        the snapshot.
        """
        if not self._is_begun and self._index.snapshot() is None:
            with self._refreshing:
                if self._index.snapshot() is None:
                    self._index.refresh(self._scan, MAX_REFRESH_SECONDS)
        self._is_begun = True
        if not self._refreshing.acquire(timeout=self._wait_s):
            return ["a newer snapshot is being made"]
        self._refreshing.release()
        return []


def main(arguments: list[str] | None = None) -> int:
    """Serve until stdin ends. Returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        about = Path(options.root).resolve(strict=True)
        cache = Path(options.cache).resolve() if options.cache else None
        if cache and cache.is_relative_to(about):
            raise ValueError(f"--cache {options.cache!r} is inside the folder; name one outside")
        max_text_bytes = options.max_mb * 1024 * 1024
        index = Index(
            str(cache or ":memory:"),
            str(about),
            max_text_bytes=max_text_bytes,
            max_seconds=MAX_SEARCH_SECONDS,
        )
        root = Root(about)
    except (OSError, NotImplementedError, Refused, ValueError, sqlite3.Error) as error:
        log(f"cannot serve {options.root!r}: {error}")
        return 2
    with root:
        scan = Scan(
            root,
            ignored=IGNORED_NAMES | frozenset(options.ignore),
            max_text_bytes=max_text_bytes,
            max_seconds=MAX_REFRESH_SECONDS,
        )
        try:
            return serve(
                build_server(index, scan),
                repr(options.root),
                options.http,
                ends_within_s=THREADS_END_WITHIN_S,
            )
        finally:
            index.close()


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("search", __doc__)
    parser.add_argument("root", help="the folder; nothing outside it is read")
    parser.add_argument(
        "--cache", metavar="FILE", help="keep the snapshot there (outside the folder)"
    )
    parser.add_argument(
        "--ignore",
        metavar="NAME",
        action="append",
        default=[],
        help="leave out files and folders of this name; may be given again",
    )
    parser.add_argument(
        "--max-mb", metavar="N", type=_megabytes, default=64, help="of text at most (64)"
    )
    return parser


def _megabytes(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= _MAX_MB:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MAX_MB}")
    return number


def _block(found: Found) -> str:
    chunk = found.chunk
    lines = with_numbers(chunk.text.split("\n"), chunk.first_line)
    return "\n".join([f"{found.path}:{chunk.first_line}-{chunk.last_line}", *lines])


def _noted(snapshot: Snapshot, notes: list[str]) -> str:
    return f"[{'; '.join(notes)}; snapshot {snapshot.digest}]"


if __name__ == "__main__":
    sys.exit(main())
