"""An MCP server over the files below one folder: `python -m agentkit_tools.files ROOT`.

With `--read-only` there are no tools that write. Threat model: whoever calls the tools (a model, or
a document that talks a model into something) is hostile; whoever started the server is not; files
below ROOT may change at any time, with malice.

- Nothing outside ROOT is read, named or changed. Absolute paths, `..`, NUL and every symbolic link
  are refused, and each path component is opened relative to its parent without following links, so
  swapping a file for a link at the right moment gains nothing. ROOT itself may be a link.
- Hard links and mounts inside ROOT count as files of ROOT. A write puts a new file in the place of
  a name, so what another hard link of it leads to, outside too, is not changed.
- Pipes, sockets and devices are not opened, and no file is run.
- A file is written whole or not at all, also when the disk is full; it keeps its permissions (not
  its owner, ACLs and extended attributes). A crash may leave a `.*.agentkit-part` file behind, or
  a file that was being moved under both its names.
- An edit, or an overwrite with a version, is refused when the file has changed since it was read.
  Calls of one server come one after the other; against other programs an instant remains.
- Nothing inside `.git` is changed: what lies there is run by git. Other files that are run by
  somebody later (a Makefile, a shell's start-up file) can be written if they are below ROOT: choose
  ROOT so that this is no harm, or use `--read-only`.
- Every answer is bounded in size, every search and list in time, files and bytes (but what one
  folder holds is always looked at whole); a regular expression runs in a child process that is
  killed when it takes too long or too much memory. How much is written is not bounded.
- File names and contents are data from strangers. They are shown as they are (names without control
  characters), so a client must not take them for instructions.

The server speaks on stdout and logs to stderr; it ends when its stdin does. `--http` serves every
user of this machine with the rights of the one who started it.
"""

from __future__ import annotations

import difflib
import itertools
import sys
from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from agentkit_tools._editing import FileChanges, FilePath
from agentkit_tools._errors import Refused
from agentkit_tools._finding import Query, search
from agentkit_tools._listing import list_folder, list_matching
from agentkit_tools._names import shown_name
from agentkit_tools._paths import MAX_PATH_CHARS, NotFound, split
from agentkit_tools._reading import End, Start, show_lines
from agentkit_tools._root import Root
from agentkit_tools._serve import (
    CHANGES,
    READS,
    REPEATABLE,
    THREADS_END_WITHIN_S,
    log,
    make_parser,
    make_server,
    serve,
    strict_tool,
)
from agentkit_tools._text import (
    MAX_FILE_BYTES,
    decode,
    lines_of,
    version_of,
)

_MAX_SUGGESTIONS = 20
_MAX_COMPARED = 3_000_000
"""Comparing two names takes up to the product of their lengths: at most this in all."""


_Folder = Annotated[
    str,
    Field(
        max_length=MAX_PATH_CHARS,
        description="folder (or file) below the root; '.' is the root",
    ),
]


def build_server(root: Root, *, read_only: bool = False) -> MCPServer:
    """The server over an open root. The caller closes the root after the server has ended."""
    reading = FileTools(root, shows_versions=not read_only)
    tools = [
        strict_tool(method, annotations=READS, explain=reading.explain)
        for method in (reading.list_files, reading.read_lines, reading.search_text)
    ]
    verb = "Reads"
    if not read_only:
        verb = "Reads and writes"
        changing = FileChanges(root)
        tools += [
            strict_tool(changing.make_folder, annotations=REPEATABLE, explain=reading.explain),
            strict_tool(changing.write_file, annotations=CHANGES, explain=reading.explain_write),
        ]
        tools += [
            strict_tool(method, annotations=CHANGES, explain=reading.explain)
            for method in (
                changing.edit_file,
                changing.move_file,
                changing.delete_file,
            )
        ]
    return make_server(
        "agentkit-files", f"{verb} text files below one folder. Paths are relative to it.", tools
    )


class FileTools:
    """The tools that read. Each returns text for a model, or raises `Refused` with what to do."""

    def __init__(self, root: Root, *, shows_versions: bool = False) -> None:
        self._root = root
        self._shows_versions = shows_versions

    def list_files(
        self,
        path: _Folder = ".",
        pattern: Annotated[
            str,
            Field(
                max_length=200,
                description="such as '*.md' or 'notes/**/*.txt'; finds files in all subfolders",
            ),
        ] = "",
    ) -> str:
        """List a folder: files with size and number of lines, folders with a / at the end.

        With a pattern, list all files below the folder that fit it.
        """
        if pattern:
            return list_matching(self._root, path, pattern)
        return list_folder(self._root, path)

    def read_lines(
        self,
        path: FilePath,
        start: Start = 1,
        end: End = None,
    ) -> str:
        """Read lines of a text file. Each line comes with its number."""
        data = self._root.read(path, MAX_FILE_BYTES)
        version = f", version {version_of(data)}" if self._shows_versions else ""
        name = shown_name("/".join(split(path)))
        return show_lines(name, lines_of(decode(data, path)), start, end, version)

    def search_text(
        self,
        query: Annotated[str, Field(max_length=1000, description="the text to find")],
        path: _Folder = ".",
        regex: Annotated[bool, Field(description="take query as a regular expression")] = False,
        ignore_case: bool = False,
        max_results: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> str:
        """Find lines that contain a text, in all files below a folder. Answers file:line: text."""
        wanted = Query(text=query, is_regex=regex, ignore_case=ignore_case, max_results=max_results)
        return search(self._root, path, wanted, MAX_FILE_BYTES)

    def explain(self, refused: Refused) -> str:
        """The message of a refusal; for a missing file with the names that are there."""
        if not isinstance(refused, NotFound):
            return str(refused)
        try:
            names = self._root.names(refused.folder)
            near = difflib.get_close_matches(
                refused.name, _some(names, len(refused.name)), n=3, cutoff=0.5
            )
            others = (name for name in names if name not in near)
            some = [*near, *itertools.islice(others, _MAX_SUGGESTIONS - len(near))]
            entries = self._root.entries(refused.folder, some)
        except Refused:
            return str(refused)
        shown = [shown_name(entry.name) + "/" * (entry.kind == "folder") for entry in entries]
        more = f" and {len(names) - len(some)} more" if len(names) > len(some) else ""
        there = f"{', '.join(shown)}{more}" if shown else "nothing"
        return f"no such file {refused.name!r} in {refused.folder!r}; in it are: {there}"

    def explain_write(self, refused: Refused) -> str:
        """As `explain`, for a new file in a folder that is not there."""
        makes = "; make_folder makes folders" if isinstance(refused, NotFound) else ""
        return f"{self.explain(refused)}{makes}"


def _some(names: list[str], n_chars: int) -> list[str]:
    """As many of the first names as can be compared with one of `n_chars` in a moment."""
    left = _MAX_COMPARED
    for number, name in enumerate(names):
        left -= n_chars * len(name)
        if left < 0:
            return names[:number]
    return names


def main(arguments: list[str] | None = None) -> int:
    """Serve until stdin ends. Returns the exit code."""
    parser = make_parser("files", __doc__)
    parser.add_argument("root", help="the folder; nothing outside it can be read or changed")
    parser.add_argument(
        "--read-only", action="store_true", help="offer no tools that write, move or delete"
    )
    options = parser.parse_args(arguments)
    try:
        root = Root(options.root)
    except (OSError, NotImplementedError) as error:
        log(f"cannot serve {options.root!r}: {error}")
        return 2
    with root:
        server = build_server(root, read_only=options.read_only)
        return serve(server, repr(options.root), options.http, ends_within_s=THREADS_END_WITHIN_S)


if __name__ == "__main__":
    sys.exit(main())
