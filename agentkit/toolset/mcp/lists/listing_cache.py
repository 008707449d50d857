"""Tool lists on disk, for as long as their servers say: a run can begin before a server is started.

One file for each server, in the user's cache folder. Its name is a digest of how the server is
reached, of the credentials and of the environment of its process, so that nobody gets a list that
was made for another. A file that is damaged, too old, or of another version's format is as good as
none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing
from agentkit.toolset.mcp.lists.names import final_names
from agentkit.toolset.mcp.lists.paging import is_sendable
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.tool import ToolSpec
from agentkit.whole_file import remove_unfinished, whole_file

_FORMAT = 1
_MOST_FILES = 256
_MOST_BYTES = 16 * 1024 * 1024
_OF_TERMINAL = frozenset(("SHELL", "TERM"))
"""Of what a server inherits: what says nothing of what it lists, nor for whom."""
_LAST_S = 1e12
"""Later than any clock, and longer than any list holds."""


class ListingCache:
    """A folder of tool lists. Nothing in it is needed: whatever fails, there is just no list.

    Args:
        folder: by default `mcp` in the user's cache folder of agentkit.
        now: the time in seconds since 1970.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    def load(self, server: McpServer, *, at_any_age: bool = False) -> Listing | None:
        """Return the list that may be used without asking the server; None if there is none.

        Its `ttl_s` is what is left of its time.

        Args:
            server: whose list.
            at_any_age: whether an old one is better than none.
        """
        if (key := _key(server)) is None or server.listing_ttl_s == 0:
            return None
        try:
            data = self._path(key).read_bytes()
            if len(data) > _MOST_BYTES:
                return None
            stored_at, listing = _read(data, server.alias)
        except (OSError, ValueError, RecursionError):
            return None
        age_s = self._now() - stored_at
        ttl_s = listing.ttl_s if server.listing_ttl_s is None else server.listing_ttl_s
        if 0 <= age_s < ttl_s:
            return replace(listing, ttl_s=ttl_s - age_s)
        return replace(listing, ttl_s=0.0) if at_any_age else None

    def keep(self, server: McpServer, listing: Listing) -> None:
        """Keep a list for as long as the server or the user says; else forget an older one."""
        ttl_s = listing.ttl_s if server.listing_ttl_s is None else server.listing_ttl_s
        if (key := _key(server)) is None:
            return
        if ttl_s <= 0:
            with contextlib.suppress(OSError):
                self._path(key).unlink(missing_ok=True)
            return
        value = {
            "format": _FORMAT,
            "stored_at": self._now(),
            "ttl_s": listing.ttl_s,
            "tools": [[tool.original, tool.spec.bytes.decode()] for tool in listing.tools],
            "warnings": list(listing.warnings),
            "is_judged": listing.is_judged,
        }
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
        if len(data) <= _MOST_BYTES:
            with contextlib.suppress(OSError):
                self._write(self._path(key), data)

    def _write(self, path: Path, data: bytes) -> None:
        """Replace a file in one step: who reads meanwhile gets the old one or the new one."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole_file(path, is_private=True) as unfinished:
            unfinished.write_bytes(data)
        _drop_oldest(path.parent)
        remove_unfinished(path.parent)

    def _path(self, key: str) -> Path:
        if self._folder is None:
            import platformdirs

            self._folder = Path(platformdirs.user_cache_dir("agentkit", appauthor=False)) / "mcp"
        return self._folder / f"{key}.json"


def _key(server: McpServer) -> str | None:
    """Name a server, what is taken of it, and as whom; None for one that cannot be named."""
    if server.server is not None or server.auth is not None or server.http_client is not None:
        return None  # what these stand for is known to them alone
    environment = server.process_env if server.command else {}
    inherited = _OF_TERMINAL - server.env.keys() - set(server.inherit_env)
    identity = {
        "format": _FORMAT,
        "alias": server.alias,
        "command": list(server.command),
        "cwd": os.path.abspath(server.cwd or "."),
        "url": server.url,
        "transport": server.transport,
        "headers": dict(server.headers),
        "environment": {n: environment[n] for n in environment if n not in inherited},
        "protocol": server.protocol,
        "capabilities": [server.elicits, server.samples],
        "allow": None if server.allow is None else sorted(server.allow),
        "deny": None if server.deny is None else sorted(server.deny),
        "resource_tool": server.resource_tool,
        "trust": [server.trust.lock is not None, server.trust.refuses_flagged],
    }
    try:
        return hashlib.sha256(canonical_json(identity)).hexdigest()
    except ValueError:  # a lone surrogate in a path or a variable
        return None


def _read(data: bytes, alias: str) -> tuple[float, Listing]:
    """Rebuild a list, and when it was kept; checks its form, its times and its names.

    That a tool's own bytes are canonical is not: it would take a tenth of a millisecond for each,
    at the start of every program.

    Raises:
        ValueError: it is no list.
    """
    match json.loads(data):
        case {
            "format": int(form),
            "stored_at": int() | float() as stored_at,
            "ttl_s": int() | float() as ttl_s,
            "tools": list(entries),
            "warnings": list(warnings),
            "is_judged": bool(is_judged),
        }:
            pass
        case _:
            raise ValueError("not the members of a list")
    if form != _FORMAT or not all(isinstance(warning, str) for warning in warnings):
        raise ValueError("another format")
    if not (0 <= stored_at <= _LAST_S and 0 <= ttl_s <= _LAST_S):
        raise ValueError("no times")
    tools = tuple(_tool(entry, alias) for entry in entries)
    names = {tool.original: tool.spec.name for tool in tools}
    if len(names) != len(tools) or final_names(alias, names) != names:
        raise ValueError("not the names of this server's tools")
    listing = Listing(
        tools=tools, warnings=tuple(warnings), ttl_s=float(ttl_s), is_judged=is_judged
    )
    return float(stored_at), listing


def _tool(entry: Any, alias: str) -> ListedTool:
    match entry:
        case [str(original), str(text)] if original and is_sendable(original):
            data = text.encode()
        case _:
            raise ValueError("not a tool")
    return ListedTool(original=original, spec=ToolSpec.pinned(data, f"MCP server {alias!r}"))


def _drop_oldest(folder: Path) -> None:
    files = [(path.stat().st_mtime, path) for path in folder.glob("*.json")]
    for _, path in sorted(files)[: max(0, len(files) - _MOST_FILES)]:
        path.unlink(missing_ok=True)
