"""Tells people who wrote a name that does not exist which one they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

_NEAR = 0.6
"""Share of letters in common; difflib's own."""

_LISTED = 20
"""Names that are listed; more would bury what is said."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is spelt most like `name`, if any is like it. Letter case is none."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_NEAR)
    return by_lower[near[0]] if near else None


def or_meant(name: str, known: Iterable[str], *, called: Collection[str] = ()) -> str:
    """How a sentence ends that says that there is no `name`.

    Args:
        name: what was written.
        known: names that there are.
        called: those of them that `name` names in another way, for certain.
    """
    if called:
        return f"; that is {' or '.join(called)}."
    near = nearest(name, known)
    return "." if near is None else f"; did you mean {near!r}?"


def listed(known: Collection[str]) -> str:
    """The names in order, and how many more there are; `none` of nothing."""
    names = sorted(known)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}" if names else "none"
