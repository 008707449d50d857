"""An MCP server over the files below one folder, read-only: `python -m agentkit_tools.files ROOT`.

Threat model. Whoever calls the tools (a model, or a document that talks a model into something) is
hostile; whoever started the server is not; files below ROOT may change at any time, with malice.

- Nothing outside ROOT is read or named. Absolute paths, `..`, NUL and every symbolic link are
  refused, and each path component is opened relative to its parent without following links, so
  swapping a file for a link at the right moment gains nothing. ROOT itself may be a link.
- Hard links and mounts inside ROOT count as files of ROOT.
- Pipes, sockets and devices are not opened. Nothing is written, and no file is run.
- Every answer is bounded in size, every search in time, files and bytes; a regular expression runs
  in a child process that is killed when it takes too long.
- File names and contents are data from strangers. They are shown as they are (names without control
  characters), so a client must not take them for instructions.

The server speaks on stdout and logs to stderr; it ends when its stdin does.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import Field

from agentkit_tools._listing import list_folder, list_matching
from agentkit_tools._names import shown_name
from agentkit_tools._root import NotFound, Refused, Root, split
from agentkit_tools._search import Query, search
from agentkit_tools._text import decode, fitting, lines_of, n_lines, shown_line

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Larger files are neither read nor searched."""

MAX_READ_LINES = 400
"""What one read answers with at most; its characters are bounded by `MAX_ANSWER_CHARS`."""

_MAX_SUGGESTIONS = 20
_LIST_TTL_MS = 3_600_000

P = ParamSpec("P")

_Path = Annotated[str, Field(description="path below the root folder, as list_files shows it")]
_Folder = Annotated[str, Field(description="folder (or file) below the root; '.' is the root")]


def build_server(root: Root) -> MCPServer:
    """The server over an open root. The caller closes the root after the server has ended."""
    tools = FileTools(root)
    methods = (tools.list_files, tools.read_lines, tools.search_text)
    return MCPServer(
        "agentkit-files",
        instructions="Reads text files below one folder. Paths are relative to it.",
        tools=[_tool(tools, method) for method in methods],
        cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_TTL_MS, scope="public")},
        log_level="WARNING",
    )


class FileTools:
    """The tools. Each returns text for a model, or raises `Refused` with what to do instead."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def list_files(
        self,
        path: _Folder = ".",
        pattern: Annotated[
            str,
            Field(description="such as '*.md' or 'notes/**/*.txt'; finds files in all subfolders"),
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
        path: _Path,
        start: Annotated[int, Field(ge=1, description="first line, from 1")] = 1,
        end: Annotated[
            int | None, Field(description="last line; without it, as many as fit")
        ] = None,
    ) -> str:
        """Read lines of a text file. Each line comes with its number."""
        lines = lines_of(decode(self._root.read(path, MAX_FILE_BYTES), path))
        name = shown_name("/".join(split(path)))
        if not lines:
            return f"{name}: empty, 0 lines"
        if start > len(lines):
            raise Refused(f"{path!r} has {n_lines(len(lines))}; start must be at most {len(lines)}")
        if end is not None and end < start:
            raise Refused(f"end must be at least start, which is {start}, and not {end}")
        wanted = len(lines) if end is None else min(end, len(lines))
        numbered = _numbered(lines, start, min(wanted, start + MAX_READ_LINES - 1))
        shown = fitting(numbered, len(name))
        last = start + len(shown) - 1
        head = f"{name}: lines {start}-{last} of {len(lines)}"
        more = [f"[cut here; go on with start={last + 1}]"] if last < wanted else []
        return "\n".join([head, *shown, *more])

    def search_text(
        self,
        query: Annotated[str, Field(description="the text to find")],
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
            names = [
                entry.name + "/" * (entry.kind == "folder")
                for entry in self._root.entries(refused.folder)
            ]
        except Refused:
            return str(refused)
        near = difflib.get_close_matches(refused.name, names, n=3, cutoff=0.5)
        shown = [shown_name(name) for name in [*near, *(n for n in names if n not in near)]]
        more = f" and {len(shown) - _MAX_SUGGESTIONS} more" if len(shown) > _MAX_SUGGESTIONS else ""
        there = f"{', '.join(shown[:_MAX_SUGGESTIONS])}{more}" if shown else "nothing"
        return f"no such file {refused.name!r} in {refused.folder!r}; in it are: {there}"


def main(arguments: list[str] | None = None) -> int:
    """Serve until stdin ends. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m agentkit_tools.files",
        description="MCP server over the files below one folder (read-only, stdio).",
    )
    parser.add_argument("root", help="the folder; nothing outside it can be read")
    folder = parser.parse_args(arguments).root
    try:
        root = Root(folder)
    except (OSError, NotImplementedError) as error:
        print(f"cannot serve {folder!r}: {error}", file=sys.stderr)  # noqa: T201 - the log
        return 2
    # The thread that reads stdin cannot be interrupted, and there is nothing to save.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if sys.stdin.isatty():
        print(f"serving {folder!r} over stdin and stdout; Ctrl-C ends it", file=sys.stderr)  # noqa: T201
    with root:
        build_server(root).run("stdio")
    return 0


def _tool(tools: FileTools, function: Callable[P, str]) -> Tool:
    """An MCP tool that answers refusals as tool errors, and allows no other arguments."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return function(*args, **kwargs)
        except Refused as refused:
            raise ToolError(tools.explain(refused)) from None

    description = inspect.getdoc(function)
    tool = Tool.from_function(answer, description=description, structured_output=False)
    return tool.model_copy(
        update={"parameters": {**tool.parameters, "additionalProperties": False}}
    )


def _numbered(lines: list[str], start: int, end: int) -> list[str]:
    """Lines `start` to `end` with their numbers."""
    width = len(str(end)) + 2
    return [
        f"{number:>{width}}| {shown_line(lines[number - 1])}" for number in range(start, end + 1)
    ]


if __name__ == "__main__":
    sys.exit(main())
