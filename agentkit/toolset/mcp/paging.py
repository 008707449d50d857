"""All pages of a list that a server gives in pages, and no endless ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

_MAX_PAGES = 1000

Ask = Callable[[str, dict[str, object]], Awaitable[Mapping[str, object]]]
"""Sends a request (method, params) and returns the raw result."""


async def all_pages(ask: Ask, method: str, key: str, warnings: list[str]) -> list[object]:
    """Return the members of all pages, as they came.

    Args:
        ask: sends a request.
        method: of the list, e.g. `resources/list`.
        key: under which a page has its members.
        warnings: gets what was wrong. A list that does not end is cut, and its beginning is used.
    """
    members: list[object] = []
    seen: set[str] = set()
    params: dict[str, object] = {}
    for _ in range(_MAX_PAGES):
        result = await ask(method, params)
        page = result.get(key)
        if isinstance(page, list):
            members += page
        else:
            warnings.append(f"a page of {method} is not a list: {str(page)[:100]!r}")
        # An empty string is a cursor like any other; only its absence ends the list.
        cursor = result.get("nextCursor")
        if cursor is None:
            return members
        if not isinstance(cursor, str) or not _is_sendable(cursor):
            warnings.append(
                f"{method} has a cursor that is no text: {str(cursor)[:100]!r}; "
                "listing stopped there"
            )
            return members
        if cursor in seen:
            warnings.append(f"{method} repeats its page {cursor!r}; listing stopped there")
            return members
        seen.add(cursor)
        params = {"cursor": cursor}
    warnings.append(f"{method} has more than {_MAX_PAGES} pages; listing stopped there")
    return members


def _is_sendable(text: str) -> bool:
    """Whether the text has no lone surrogates."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text
