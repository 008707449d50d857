"""All pages of a list that a server gives in pages, and no endless ones."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from agentkit.toolset.mcp.lists.words import excerpt

MAX_PAGES = 1000
_MOST_MEMBERS = 50_000
_MOST_CHARS = 32 * 1024 * 1024
"""Of all pages behind the first, which is bounded as every message is."""

Ask = Callable[[str, dict[str, object]], Awaitable[Mapping[str, object]]]
"""Sends a request (method, params) and returns the raw result."""


async def all_pages(
    ask: Ask, method: str, key: str, warnings: list[str]
) -> tuple[list[object], list[Mapping[str, object]]]:
    """Return the members of all pages, as they came, and the raw pages.

    Args:
        ask: sends a request.
        method: of the list, e.g. `resources/list`.
        key: under which a page has its members.
        warnings: gets what was wrong. A list that does not end is cut, and its beginning is used.
    """
    members: list[object] = []
    pages: list[Mapping[str, object]] = []
    what = f"the {key.removesuffix('s')} list"
    seen: set[str] = set()
    params: dict[str, object] = {}
    n_chars = 0
    while len(pages) < MAX_PAGES:
        result = await ask(method, params)
        pages.append(result)
        page = result.get(key)
        if isinstance(page, list):
            members += page
        else:
            warnings.append(f"a page of {what} is not a list: {excerpt(page)!r}")
        # An empty string is a cursor like any other; only its absence ends the list.
        cursor = result.get("nextCursor")
        if cursor is None:
            return members, pages
        if not isinstance(cursor, str) or not is_sendable(cursor):
            warnings.append(
                f"{what} has a cursor that is no text: {excerpt(cursor)!r}; listing stopped there"
            )
            return members, pages
        if cursor in seen:
            warnings.append(f"{what} repeats its page {excerpt(cursor)!r}; listing stopped there")
            return members, pages
        seen.add(cursor)
        n_chars += _n_chars(page) if len(pages) > 1 else 0
        if len(members) > _MOST_MEMBERS or n_chars > _MOST_CHARS:
            warnings.append(
                f"{what} has more than {_MOST_MEMBERS} members or {_MOST_CHARS} characters; "
                "listing stopped there"
            )
            return members, pages
        params = {"cursor": cursor}
    warnings.append(f"{what} has more than {MAX_PAGES} pages; listing stopped there")
    return members, pages


def _n_chars(page: object) -> int:
    try:
        return len(json.dumps(page, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return 0  # of a server object in this process


def is_sendable(text: str) -> bool:
    """Return whether a text has no lone surrogates. A server may list such; none can send it."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text
