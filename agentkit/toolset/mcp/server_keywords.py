"""Which keywords an `McpServer` takes, and what others call them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_ELSEWHERE = {
    "name": "alias=...",
    "id": "alias=...",
    "args": "command=[program, *arguments]",
    "params": "command=[program, *arguments], or url=...",
    "environment": "env={...}",
    "type": 'transport="streamable-http" or "sse", with url=...',
    "timeout": "connect_timeout_s=... or call_timeout_s=...",
    "timeout_s": "connect_timeout_s=... or call_timeout_s=...",
    "tool_filter": "allow={...} or deny={...}",
    "allowed_tools": "allow={...}",
    "blocked_tools": "deny={...}",
    "require_approval": 'policies={"*": ToolPolicy(requires_approval=True)}',
    "tool_prefix": "alias=...",
}
"""What it is called by others, and what to write here."""


def check_keywords(args: Sequence[object], given: Iterable[str], known: Iterable[str]) -> None:
    """Check that a server is described by keywords, and by such as there are.

    Raises:
        ValueError: it is not. Values are not repeated, since they may be secret.
    """
    if args:
        raise ValueError(
            'an McpServer takes keywords only: McpServer(alias="files", command=[...])'
        )
    names = list(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            meant = _ELSEWHERE.get(name) or (f"{near[0]}=..." if near else None)
            hint = f"write {meant}" if meant else "docs/mcp.md has a table of all settings"
            raise ValueError(f"an McpServer has no setting {name!r}; {hint}")
