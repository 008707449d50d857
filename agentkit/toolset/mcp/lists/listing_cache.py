"""Tool lists on disk, for as long as their servers say: a run can begin before a server is started.

One file for each server, in the user's cache folder. Its name is a digest of how the server is
reached and of the credentials, so that nobody gets a list that was made for another. A file that is
damaged, too old, or of another version's format is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.tool import ToolSpec

_FORMAT = 1
_MOST_FILES = 256
_MOST_BYTES = 16 * 1024 * 1024
_AMBIENT = frozenset(("HOME", "LOGNAME", "PATH", "PYTHONHASHSEED", "SHELL", "TERM", "USER"))
"""Of a server's environment: what says nothing of what it lists, nor for whom."""


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
            value: Any = json.loads(data) if len(data) <= _MOST_BYTES else None
            listing = _listing(value, server.alias)
        except (OSError, ValueError, KeyError, TypeError, ToolDefinitionError, RecursionError):
            return None
        age_s = self._now() - value["stored_at"]
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
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        _drop_oldest(path.parent)

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
    identity = {
        "format": _FORMAT,
        "alias": server.alias,
        "command": list(server.command),
        "cwd": os.path.abspath(server.cwd or "."),
        "url": server.url,
        "transport": server.transport,
        "headers": dict(server.headers),
        "environment": {n: environment[n] for n in environment if n not in _AMBIENT},
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


def _listing(value: Any, alias: str) -> Listing:
    """Rebuild a list; raises whatever shows that it is none."""
    if value["format"] != _FORMAT or not isinstance(value["stored_at"], int | float):
        raise ValueError("another format")
    source = f"MCP server {alias!r}"
    tools = [
        ListedTool(original=str(original), spec=ToolSpec.pinned(text.encode(), source))
        for original, text in value["tools"]
    ]
    return Listing(
        tools=tuple(tools),
        warnings=tuple(map(str, value["warnings"])),
        ttl_s=float(value["ttl_s"]),
        is_judged=value["is_judged"] is True,
    )


def _drop_oldest(folder: Path) -> None:
    files = [(path.stat().st_mtime, path) for path in folder.glob("*.json")]
    for _, path in sorted(files)[: max(0, len(files) - _MOST_FILES)]:
        path.unlink(missing_ok=True)
